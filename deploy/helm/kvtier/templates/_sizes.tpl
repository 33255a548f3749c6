{{/* Bytes of a size in the server's notation or in that of a Kubernetes quantity. Helm reads the
numbers of a values file as floats, hence int64 everywhere: a float would print as 6.8e+10. */}}
{{- define "kvtier.bytes" -}}
{{- if not (kindIs "string" .) -}}
{{- int64 . -}}
{{- else -}}
{{- if not (regexMatch "^[0-9]+([.][0-9]+)?([eE][+]?[0-9]+)? ?[A-Za-z]*$" .) -}}
{{- fail (printf "%q is not a size: write a number and a unit, such as 8GiB" .) -}}
{{- end -}}
{{- $unit := regexFind "[A-Za-z]*$" . | lower | trimSuffix "b" -}}
{{- $powers := dict "" 1 "k" 1000 "ki" 1024 "m" 1000000 "mi" 1048576 "g" 1000000000
      "gi" 1073741824 "t" 1000000000000 "ti" 1099511627776 -}}
{{- if not (hasKey $powers $unit) -}}
{{- fail (printf "%q is not a size: the unit is unknown; use KiB, MiB, GiB or TiB" .) -}}
{{- end -}}
{{- mulf (regexFind "^[0-9.]+([eE][+]?[0-9]+)?" . | float64) (get $powers $unit) | int64 -}}
{{- end -}}
{{- end -}}

{{/* Bytes that a tier takes beyond its capacity: where blocks may change places with those of another
tier, it has spare slots. */}}
{{- define "kvtier.spareBytes" -}}
{{- ternary 16777216 0 (gt (len .Values.config.tiers) 1) -}}
{{- end -}}

{{/* Bytes of /dev/shm: the host tiers with their spare slots, and some slack. */}}
{{- define "kvtier.shmBytes" -}}
{{- $sum := 67108864 -}}
{{- $spare := include "kvtier.spareBytes" . -}}
{{- range .Values.config.tiers -}}
{{- if eq .medium "cpu" -}}{{- $sum = add $sum (include "kvtier.bytes" .capacity) $spare -}}{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Bytes that the container needs. A GPU tier counts unless a device is named, since without a
GPU it lives in host memory. */}}
{{- define "kvtier.neededBytes" -}}
{{- $sum := add (include "kvtier.shmBytes" .) (include "kvtier.bytes" .Values.memoryOverhead) -}}
{{- $spare := include "kvtier.spareBytes" . -}}
{{- range .Values.config.tiers -}}
{{- if and (eq .medium "gpu") (not (hasPrefix "cuda:" (default "auto" .device))) -}}
{{- $sum = add $sum (include "kvtier.bytes" .capacity) $spare -}}
{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Probes of 2 s that a start may fail: a minute, and two seconds for each GiB of the tiers. Opening
a host tier takes about one. */}}
{{- define "kvtier.startupFailures" -}}
{{- $sum := 0 -}}
{{- range .Values.config.tiers -}}{{- $sum = add $sum (include "kvtier.bytes" .capacity) -}}{{- end -}}
{{- add 30 (divf $sum 1073741824 | ceil | int64) -}}
{{- end -}}

{{/* Bytes of the memory limit: the given one if it is large enough, else the needed one. */}}
{{- define "kvtier.limitBytes" -}}
{{- $needed := include "kvtier.neededBytes" . | int64 -}}
{{- $given := dig "limits" "memory" "" .Values.resources -}}
{{- if eq (toString $given) "" -}}
{{- $needed -}}
{{- else -}}
{{- $limit := include "kvtier.bytes" $given | int64 -}}
{{- if lt $limit $needed -}}
{{- fail (printf "resources.limits.memory is %d bytes, but the tiers in host memory, their spare slots, 64 MiB of slack and memoryOverhead need %d: raise the limit, or leave it out" $limit $needed) -}}
{{- end -}}
{{- $limit -}}
{{- end -}}
{{- end -}}

{{/* The container's resources, as given, with the memory limit and request filled in. */}}
{{- define "kvtier.resources" -}}
{{- $limit := include "kvtier.limitBytes" . -}}
{{- $given := .Values.resources -}}
{{- $memory := dict "memory" $limit -}}
{{- $requests := merge (dict) (default (dict) $given.requests) $memory -}}
{{- $limits := merge (dict) $memory (default (dict) $given.limits) -}}
{{- toYaml (dict "requests" $requests "limits" $limits) -}}
{{- end -}}
