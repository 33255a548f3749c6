{{/* Probes of 2 s that a start may fail: a minute, and two seconds for each GiB of the tiers in memory.
Opening a host tier takes about one. */}}
{{- define "kvtier.startupFailures" -}}
{{- $sum := 0 -}}
{{- range .values.config.tiers -}}
{{- if has .medium (list "gpu" "cpu") -}}{{- $sum = add $sum (include "kvtier.bytes" .capacity) -}}{{- end -}}
{{- end -}}
{{- add 30 (divf $sum 1073741824 | ceil | int64) -}}
{{- end -}}

{{/* Seconds that a pod has to end: what it drains for, and time for the last events and the exit. */}}
{{- define "kvtier.gracePeriod" -}}
{{- $drain := addf (dig "drain_delay" 0 .values.config) (dig "drain_timeout" 10 .values.config) -}}
{{- add (ceil $drain | int64) 15 -}}
{{- end -}}

{{/* The kubelet's gRPC probes speak no TLS: with TLS they go to the port for health alone. Liveness asks for
nothing that a recovery or a drain could withhold. */}}
{{- define "kvtier.probes" -}}
{{- $port := ternary (int64 .root.Values.ports.health) (include "kvtier.port" . | int64) (eq (include "kvtier.tls" .root) "true") -}}
startupProbe:
  grpc:
    port: {{ $port }}
    service: liveness
  periodSeconds: 2
  failureThreshold: {{ include "kvtier.startupFailures" . }}
readinessProbe:
  grpc:
    port: {{ $port }}
    service: kvtier.v1.TierService
  periodSeconds: 5
livenessProbe:
  grpc:
    port: {{ $port }}
    service: liveness
  periodSeconds: 10
  failureThreshold: 6
{{- end -}}
