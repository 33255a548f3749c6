{{/* An address of each enabled component, as JSON. Any node of the cluster stands for those on machines, since the
test's own machine may have none. */}}
{{- define "kvtier.testAddresses" -}}
{{- $addresses := dict -}}
{{- range $name, $suffix := dict "node" "members" "proxy" "proxy" -}}
{{- if (get $.Values $name).enabled -}}
{{- $host := include "kvtier.serviceHost" (dict "root" $ "suffix" $suffix) -}}
{{- $_ := set $addresses $name (printf "%s:%s" $host (include "kvtier.port" (dict "root" $ "name" $name))) -}}
{{- end -}}
{{- end -}}
{{- if .Values.storage.enabled -}}
{{- $_ := set $addresses "storage" (index (include "kvtier.storageAddresses" . | fromJsonArray) 0) -}}
{{- end -}}
{{- toJson $addresses -}}
{{- end -}}

{{/* The options with which a command connects, each after a comma. */}}
{{- define "kvtier.testCredentials" -}}
{{- if include "kvtier.tls" . -}}
, --cacert, /etc/kvtier/tls/ca.crt
{{- if .Values.tls.clientCertificates -}}
, --cert, /etc/kvtier/tls/tls.crt, --key, /etc/kvtier/tls/tls.key
{{- end -}}
{{- end -}}
{{- if .Values.auth.connect.secret -}}
, --token-file, /etc/kvtier/connect/{{ .Values.auth.connect.key }}
{{- end -}}
{{- end -}}
