{{/* The server's configuration file. */}}
{{- define "kvtier.config" -}}
{{- if not .Values.insecure -}}
{{- fail "kvtier has no TLS and no authentication yet, and its pods listen beyond loopback: whoever reaches them can read, write and delete every block. Set insecure=true to accept this" -}}
{{- end -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "listen" (printf "0.0.0.0:%d" (int64 .Values.port)) -}}
{{- $_ := set $config "insecure" true -}}
{{- include "kvtier.integers" $config -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Turn whole floats into integers, in place: Helm reads every number as a float. */}}
{{- define "kvtier.integers" -}}
{{- $node := . -}}
{{- range $key, $value := $node -}}
{{- if kindIs "float64" $value -}}
{{- if eq $value (float64 (int64 $value)) -}}{{- $_ := set $node $key (int64 $value) -}}{{- end -}}
{{- else if kindIs "map" $value -}}
{{- include "kvtier.integers" $value -}}
{{- else if kindIs "slice" $value -}}
{{- range $value -}}{{- if kindIs "map" . -}}{{- include "kvtier.integers" . -}}{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
