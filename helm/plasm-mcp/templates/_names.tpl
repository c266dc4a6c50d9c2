{{/* Names and labels. */}}

{{- define "plasm-mcp.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* 40 characters at most, for what is added to it. */}}
{{- define "plasm-mcp.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "plasm-mcp.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "plasm-mcp.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "plasm-mcp.selector" -}}
app.kubernetes.io/name: {{ include "plasm-mcp.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end }}

{{/* Labels of every object; takes the root and the component. */}}
{{- define "plasm-mcp.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/name: {{ include "plasm-mcp.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "plasm-mcp.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "plasm-mcp.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "plasm-mcp.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the restricted pod security standard asks of a pod, and of a container. */}}

{{- define "plasm-mcp.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}
{{- define "plasm-mcp.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Annotations of what `helm test` makes, the lowest weight first. Jobs stand until the next test, for their logs; what they
     were made with, rights among it, goes once all is passed. */}}
{{- define "plasm-mcp.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation{{ if lt (int .) 0 }},hook-succeeded{{ end }}
{{- end }}
