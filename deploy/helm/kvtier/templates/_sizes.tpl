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
