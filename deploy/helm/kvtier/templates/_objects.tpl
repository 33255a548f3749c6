{{/* Objects that components have alike. */}}
{{- define "kvtier.certificate" -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  {{- include "kvtier.metadata" . | nindent 2 }}
spec:
  secretName: {{ include "kvtier.tlsSecret" . }}
  issuerRef:
    {{- toYaml .root.Values.tls.certManager.issuerRef | nindent 4 }}
  duration: {{ .root.Values.tls.certManager.duration }}
  renewBefore: {{ .root.Values.tls.certManager.renewBefore }}
  privateKey:
    algorithm: ECDSA
    size: 256
    rotationPolicy: Always
  # Each also calls others: proxies follow nodes, and nodes pull from peers.
  usages: [server auth, client auth]
  dnsNames:
    {{- include "kvtier.dnsNames" . | fromJsonArray | toYaml | nindent 4 }}
{{- end -}}

{{- define "kvtier.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "kvtier.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ int64 .values.podDisruptionBudget.maxUnavailable }}
  # A pod that is not ready is in nobody's way: it may be moved.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "kvtier.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* The ports of a service. */}}
{{- define "kvtier.servicePorts" -}}
- name: grpc
  port: {{ include "kvtier.port" . }}
  targetPort: grpc
  protocol: TCP
  {{- if not (include "kvtier.tls" .root) }}
  appProtocol: kubernetes.io/h2c
  {{- end }}
{{- end -}}

{{/* How an update goes on. Numbers of pods belong to rolling updates alone. */}}
{{- define "kvtier.strategy" -}}
{{- $strategy := deepCopy . -}}
{{- if ne $strategy.type "RollingUpdate" -}}{{- $_ := unset $strategy "rollingUpdate" -}}{{- end -}}
{{- include "kvtier.integers" $strategy -}}
{{- toYaml $strategy -}}
{{- end -}}
