{{/* Bytes that a tier takes beyond its capacity: where blocks may change places with those of another
tier, it has spare slots. Takes the tiers. */}}
{{- define "kvtier.spareBytes" -}}
{{- ternary 16777216 0 (gt (len .) 1) -}}
{{- end -}}

{{/* Bytes of /dev/shm: the host tiers with their spare slots, and some slack. Takes the tiers. */}}
{{- define "kvtier.shmBytes" -}}
{{- $sum := 67108864 -}}
{{- $spare := include "kvtier.spareBytes" . -}}
{{- range . -}}
{{- if eq .medium "cpu" -}}{{- $sum = add $sum (include "kvtier.bytes" .capacity) $spare -}}{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Bytes that the container needs. A GPU tier counts unless a device is named, since without a
GPU it lives in host memory. Takes a component. */}}
{{- define "kvtier.neededBytes" -}}
{{- $sum := include "kvtier.bytes" .values.memoryOverhead | int64 -}}
{{- with .values.config.tiers -}}
{{- $spare := include "kvtier.spareBytes" . -}}
{{- $sum = add $sum (include "kvtier.shmBytes" .) -}}
{{- range . -}}
{{- if and (eq .medium "gpu") (not (hasPrefix "cuda:" (default "auto" .device))) -}}
{{- $sum = add $sum (include "kvtier.bytes" .capacity) $spare -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Bytes of the memory limit: the given one if it is large enough, else the needed one. */}}
{{- define "kvtier.limitBytes" -}}
{{- $needed := include "kvtier.neededBytes" . | int64 -}}
{{- $given := dig "limits" "memory" "" .values.resources -}}
{{- if eq (toString $given) "" -}}
{{- $needed -}}
{{- else -}}
{{- $limit := include "kvtier.bytes" $given | int64 -}}
{{- if lt $limit $needed -}}
{{- fail (printf "%s.resources.limits.memory is %d bytes, but the tiers in host memory, their spare slots, 64 MiB of slack and memoryOverhead need %d: raise the limit, or leave it out" .name $limit $needed) -}}
{{- end -}}
{{- $limit -}}
{{- end -}}
{{- end -}}

{{/* The container's resources, as given, with the memory limit and request filled in. */}}
{{- define "kvtier.resources" -}}
{{- $limit := include "kvtier.limitBytes" . -}}
{{- $given := .values.resources -}}
{{- $memory := dict "memory" $limit -}}
{{- $requests := merge (dict) (default (dict) $given.requests) $memory -}}
{{- $limits := merge (dict) $memory (default (dict) $given.limits) -}}
{{- $resources := dict "requests" $requests "limits" $limits -}}
{{- with $given.claims -}}{{- $_ := set $resources "claims" . -}}{{- end -}}
{{- include "kvtier.integers" $resources -}}
{{- toYaml $resources -}}
{{- end -}}
