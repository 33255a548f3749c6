{{/* What holds for every pod: the restricted pod security standard. */}}
{{- define "kvtier.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "kvtier.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What holds for every pod: who it is, and where its image comes from. Takes the root. */}}
{{- define "kvtier.podIdentity" -}}
serviceAccountName: {{ include "kvtier.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "kvtier.podSecurity" . | nindent 2 }}
{{- end -}}

{{/* Where a component's pods go. */}}
{{- define "kvtier.placement" -}}
{{- $values := .values -}}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- if and (eq .name "proxy") .root.Values.node.enabled (not $values.config.primary) }}
affinity:
  podAffinity:
    # Its primary is the node on its own machine.
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "kvtier.selectorLabels" (dict "root" .root "name" "node") | nindent 12 }}
{{- end }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels:
        {{- include "kvtier.selectorLabels" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* What a container's environment says beside the values. The pod's host name changes with every pod of a
machine; the machine's name stays. */}}
{{- define "kvtier.environment" -}}
{{- if ne .name "proxy" -}}
- name: KVTIER_NODE_ID
  valueFrom:
    fieldRef:
      fieldPath: {{ ternary "spec.nodeName" "metadata.name" (eq .name "node") }}
{{- if contains "$(KVTIER_NODE_ID)" (toJson .values.config.tiers) }}
# Kubernetes writes the id into it; the variable wins over the file.
- name: KVTIER_TIERS
  value: {{ include "kvtier.tiers" . | quote }}
{{- end }}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kvtier.container" -}}
{{- $secrets := include "kvtier.ownSecrets" . | fromYaml -}}
name: kvtier
image: {{ include "kvtier.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [kvtier]
args: [{{ ternary "proxy" "serve" (eq .name "proxy") }}, --config, /etc/kvtier/config/config.yaml]
{{- with include "kvtier.environment" . | trim }}
env:
  {{- . | nindent 2 }}
{{- end }}
ports:
  - name: grpc
    containerPort: {{ include "kvtier.port" . }}
    protocol: TCP
  {{- if include "kvtier.tls" .root }}
  - name: health
    containerPort: {{ int64 .root.Values.ports.health }}
    protocol: TCP
  {{- end }}
  {{- if .root.Values.metrics.enabled }}
  - name: metrics
    containerPort: {{ int64 .root.Values.ports.metrics }}
    protocol: TCP
  {{- end }}
{{ include "kvtier.probes" . }}
resources:
  {{- include "kvtier.resources" . | nindent 2 }}
securityContext:
  {{- include "kvtier.containerSecurity" . | nindent 2 }}
volumeMounts:
  - name: config
    mountPath: /etc/kvtier/config
    readOnly: true
  - name: tmp
    mountPath: /tmp
  {{- if ne .name "proxy" }}
  - name: shm
    mountPath: /dev/shm
  {{- end }}
  {{- include "kvtier.secretMounts" $secrets | nindent 2 }}
  {{- with include "kvtier.mounts" . | fromYamlArray }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The pod template of a component. */}}
{{- define "kvtier.pod" -}}
metadata:
  annotations:
    checksum/config: {{ include "kvtier.config" . | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "kvtier.labels" . | nindent 4 }}
    {{- if ne .name "proxy" }}
    kvtier/member: "true"
    {{- end }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "kvtier.podIdentity" .root | nindent 2 }}
  {{- include "kvtier.placement" . | nindent 2 }}
  {{- if .values.hostIPC }}
  hostIPC: true
  {{- end }}
  {{- with .values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .values.resourceClaims }}
  resourceClaims:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ include "kvtier.gracePeriod" . }}
  containers:
    - {{ include "kvtier.container" . | nindent 6 | trim }}
  volumes:
    - name: config
      configMap:
        name: {{ include "kvtier.componentName" . }}
    - name: tmp
      emptyDir:
        sizeLimit: 64Mi
    {{- if ne .name "proxy" }}
    {{- include "kvtier.shmVolume" . | nindent 4 }}
    {{- end }}
    {{- include "kvtier.secretVolumes" (include "kvtier.ownSecrets" . | fromYaml) | nindent 4 }}
    {{- with .values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
