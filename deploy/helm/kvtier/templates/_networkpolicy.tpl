{{/* Who reaches a component, and whom it reaches. An empty `from` of Kubernetes would be everybody, so that a
rule for nobody is left out. */}}
{{- define "kvtier.networkPolicy" -}}
{{- $policy := .root.Values.networkPolicy -}}
{{- $own := dict "podSelector" (dict "matchLabels" (include "kvtier.releaseSelector" .root | fromYaml)) -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "kvtier.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "kvtier.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress{{ if $policy.egress.enabled }}, Egress{{ end }}]
  ingress:
    - from:
        {{- prepend $policy.grpc.from $own | toYaml | nindent 8 }}
      ports:
        - port: grpc
          protocol: TCP
    {{- if and .root.Values.metrics.enabled $policy.metrics.from }}
    - from:
        {{- toYaml $policy.metrics.from | nindent 8 }}
      ports:
        - port: metrics
          protocol: TCP
    {{- end }}
    {{- if and (include "kvtier.tls" .root) $policy.health.from }}
    - from:
        {{- toYaml $policy.health.from | nindent 8 }}
      ports:
        - port: health
          protocol: TCP
    {{- end }}
  {{- if $policy.egress.enabled }}
  egress:
    - ports:
        - port: 53
          protocol: UDP
        - port: 53
          protocol: TCP
    - to:
        - {{ toYaml $own | nindent 10 | trim }}
    {{- with $policy.egress.rules }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}
