{{- define "kvtier.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 43 | trimSuffix "-" -}}
{{- end -}}

{{/* What all names begin with. A StatefulSet's name may have 52 characters, since Kubernetes makes a label
of it and a hash: 43 leave room for the suffixes. */}}
{{- define "kvtier.fullname" -}}
{{- $name := include "kvtier.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 43 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 43 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 43 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The templates of a component take a dict: the root context, the component's name, and its values. */}}
{{- define "kvtier.componentName" -}}
{{- printf "%s-%s" (include "kvtier.fullname" .root) .name -}}
{{- end -}}

{{- define "kvtier.port" -}}
{{- int64 (ternary .root.Values.ports.proxy .root.Values.ports.node (eq .name "proxy")) -}}
{{- end -}}

{{/* A service's name within the cluster. Takes the root and the suffix of the name. */}}
{{- define "kvtier.serviceHost" -}}
{{- printf "%s-%s.%s.svc" (include "kvtier.fullname" .root) .suffix .root.Release.Namespace -}}
{{- end -}}

{{/* The stable name of a storage node. Takes the root and the number of the pod. */}}
{{- define "kvtier.storageHost" -}}
{{- printf "%s-storage-%d.%s" (include "kvtier.fullname" .root) (int .number) (include "kvtier.serviceHost" (dict "root" .root "suffix" "storage")) -}}
{{- end -}}

{{- define "kvtier.releaseSelector" -}}
app.kubernetes.io/name: {{ include "kvtier.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kvtier.selectorLabels" -}}
{{ include "kvtier.releaseSelector" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{/* Labels of an object. Takes the root and the component's name. */}}
{{- define "kvtier.labels" -}}
{{ include "kvtier.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Name, namespace and labels of an object. Takes the root, the component's name and the name's suffix. */}}
{{- define "kvtier.metadata" -}}
name: {{ include "kvtier.fullname" .root }}-{{ default .name .suffix }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "kvtier.labels" . | nindent 2 }}
{{- end -}}

{{- define "kvtier.serviceAccountName" -}}
{{- $default := ternary (include "kvtier.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $default .Values.serviceAccount.name -}}
{{- end -}}

{{- define "kvtier.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Name, namespace and labels of an object for monitoring. Takes the root, the name's suffix and more labels. */}}
{{- define "kvtier.monitoringMetadata" -}}
{{- include "kvtier.metadata" (dict "root" .root "name" "monitoring" "suffix" .suffix) }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
