{{/* "true" with TLS, else empty. Refuse what cannot be meant. */}}
{{- define "kvtier.tls" -}}
{{- $tls := .Values.tls -}}
{{- $on := or $tls.certManager.enabled $tls.existingSecret -}}
{{- if and $on .Values.insecure -}}
{{- fail "insecure=true says that there is no TLS, and tls says that there is: remove one of them" -}}
{{- else if and $tls.certManager.enabled $tls.existingSecret -}}
{{- fail "tls.certManager and tls.existingSecret exclude each other: remove one of them" -}}
{{- else if and $tls.certManager.enabled (not $tls.certManager.issuerRef.name) -}}
{{- fail "tls.certManager needs an issuer: set tls.certManager.issuerRef.name" -}}
{{- else if $on -}}
true
{{- else if not .Values.insecure -}}
{{- fail "pods listen beyond loopback, and there is no TLS: whoever reaches them can read, write and delete every block. Set tls.certManager or tls.existingSecret, or insecure=true to accept it" -}}
{{- end -}}
{{- end -}}

{{/* The secret with a component's certificate. */}}
{{- define "kvtier.tlsSecret" -}}
{{- default (printf "%s-tls" (include "kvtier.componentName" .)) .root.Values.tls.existingSecret -}}
{{- end -}}

{{/* The first name in a component's certificate, by which others know it. */}}
{{- define "kvtier.identity" -}}
{{- printf "%s.%s" (include "kvtier.componentName" .) .root.Release.Namespace -}}
{{- end -}}

{{/* The names in a component's certificate, as JSON: itself, and whatever name it is called by. */}}
{{- define "kvtier.dnsNames" -}}
{{- $names := list (include "kvtier.identity" .) "localhost" -}}
{{- $services := get (dict "node" (list "local" "members") "storage" (list "storage" "members") "proxy" (list "proxy")) .name -}}
{{- range $suffix := $services -}}
{{- $service := printf "%s-%s" (include "kvtier.fullname" $.root) $suffix -}}
{{- $host := include "kvtier.serviceHost" (dict "root" $.root "suffix" $suffix) -}}
{{- $names = concat $names (list $service (printf "%s.%s" $service $.root.Release.Namespace) $host (printf "%s.%s" $host $.root.Values.clusterDomain)) -}}
{{- if ne $suffix "local" -}}
{{- $names = concat $names (list (printf "*.%s" $host) (printf "*.%s.%s" $host $.root.Values.clusterDomain)) -}}
{{- end -}}
{{- end -}}
{{- toJson (uniq $names) -}}
{{- end -}}

{{/* The settings tls, auth and connect of a component, as YAML. */}}
{{- define "kvtier.security" -}}
{{- $settings := dict -}}
{{- $values := .root.Values -}}
{{- $connect := dict -}}
{{- if include "kvtier.tls" .root -}}
{{- $pair := dict "cert" "/etc/kvtier/tls/tls.crt" "key" "/etc/kvtier/tls/tls.key" -}}
{{- $authority := "/etc/kvtier/tls/ca.crt" -}}
{{- $callers := ternary (dict "client_ca" $authority) (dict) $values.tls.clientCertificates -}}
{{- $_ := set $settings "tls" (merge (dict) $pair $callers) -}}
{{- $connect = merge (dict "ca" $authority) (ternary $pair (dict) $values.tls.clientCertificates) -}}
{{- else -}}
{{- $_ := set $settings "insecure" true -}}
{{- end -}}
{{- with $values.auth.connect.secret -}}
{{- $_ := set $connect "token" (printf "/etc/kvtier/connect/%s" $values.auth.connect.key) -}}
{{- end -}}
{{- if $connect -}}{{- $_ := set $settings "connect" $connect -}}{{- end -}}
{{- $auth := include "kvtier.auth" . | fromYaml -}}
{{- if $auth -}}{{- $_ := set $settings "auth" $auth -}}{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/* The setting auth. Once there are grants the components need some of their own: proxies and tests read, and
nodes pull blocks from each other. */}}
{{- define "kvtier.auth" -}}
{{- $auth := dict -}}
{{- $values := .root.Values -}}
{{- include "kvtier.checkAuth" .root -}}
{{- with $values.auth.tokens.secret -}}
{{- $_ := set $auth "tokens" (printf "/etc/kvtier/tokens/%s" $values.auth.tokens.key) -}}
{{- end -}}
{{- with $values.auth.grants -}}
{{- $grants := . -}}
{{- if and $values.tls.certManager.enabled $values.tls.clientCertificates -}}
{{- range $name, $role := dict "node" "writer" "proxy" "reader" "storage" "writer" -}}
{{- if (get $values $name).enabled -}}
{{- $identity := include "kvtier.identity" (dict "root" $.root "name" $name) -}}
{{- $grants = append $grants (dict "identity" (printf "dns:%s" $identity) "role" $role) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $auth "grants" $grants -}}
{{- end -}}
{{- toYaml $auth -}}
{{- end -}}

{{/* Refuse what would let nobody in, or show tokens to everybody. */}}
{{- define "kvtier.checkAuth" -}}
{{- $auth := .Values.auth -}}
{{- $tls := include "kvtier.tls" . -}}
{{- $certificates := and $tls .Values.tls.clientCertificates -}}
{{- if and (or $auth.tokens.secret $auth.connect.secret) (not $tls) -}}
{{- fail "without TLS tokens could be read on their way: set tls.certManager or tls.existingSecret, or remove auth.tokens and auth.connect" -}}
{{- else if and $auth.grants (not $auth.tokens.secret) (not $certificates) -}}
{{- fail "auth.grants knows callers by certificates or tokens, and there are neither: set tls or auth.tokens, or remove the grants" -}}
{{- else if and $auth.tokens.secret .Values.proxy.enabled (not $auth.connect.secret) (not $certificates) -}}
{{- fail "nodes let no proxy in, which has neither a certificate nor a token: set auth.connect.secret" -}}
{{- end -}}
{{- end -}}
