{{/* The secrets that every pod mounts, the test's too: pairs of name and secret, as YAML. */}}
{{- define "kvtier.secrets" -}}
{{- $secrets := dict -}}
{{- if include "kvtier.tls" .root -}}{{- $_ := set $secrets "tls" (include "kvtier.tlsSecret" .) -}}{{- end -}}
{{- with .root.Values.auth.connect.secret -}}{{- $_ := set $secrets "connect" . -}}{{- end -}}
{{- toYaml $secrets -}}
{{- end -}}

{{- define "kvtier.secretMounts" -}}
{{- range $name, $secret := . }}
- name: {{ $name }}
  mountPath: /etc/kvtier/{{ $name }}
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "kvtier.secretVolumes" -}}
{{- range $name, $secret := . }}
- name: {{ $name }}
  secret:
    secretName: {{ $secret }}
    # For the pod's group (fsGroup) alone.
    defaultMode: 0440
{{- end -}}
{{- end -}}

{{/* The secrets of a component: those, and the tokens that it lets in. */}}
{{- define "kvtier.ownSecrets" -}}
{{- $secrets := include "kvtier.secrets" . | fromYaml -}}
{{- with .root.Values.auth.tokens.secret -}}{{- $_ := set $secrets "tokens" . -}}{{- end -}}
{{- toYaml $secrets -}}
{{- end -}}

{{/* The pod's own memory at /dev/shm, or the machine's. What is in it counts as the container's memory. */}}
{{- define "kvtier.shmVolume" -}}
- name: shm
  {{- $path := dig "sharedMemory" "hostPath" "" .values }}
  {{- if $path }}
  hostPath:
    path: {{ $path | quote }}
    type: Directory
  {{- else }}
  emptyDir:
    medium: Memory
    sizeLimit: {{ include "kvtier.shmBytes" .values.config.tiers | quote }}
  {{- end }}
{{- end -}}
