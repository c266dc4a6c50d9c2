{{/* The gateway's configuration file: the values' settings and those that the chart knows. */}}

{{- define "plasm-mcp.publicUrl" -}}
{{- if .Values.config.public_url }}
{{- .Values.config.public_url }}
{{- else if and (ne .Values.ingress.controller "none") .Values.ingress.hosts }}
{{- printf "%s://%s" (ternary "https" "http" .Values.ingress.tls.enabled) (first .Values.ingress.hosts) }}
{{- end }}
{{- end }}

{{- define "plasm-mcp.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "listen" (printf "%s:8080" .Values.bindAddress) }}
{{- $_ := set $config "admin_listen" (printf "%s:9090" .Values.bindAddress) }}
{{- if .Values.internal.enabled }}
{{- $_ := set $config "internal_listen" (printf "%s:%d" .Values.bindAddress (int .Values.internal.port)) }}
{{- end }}
{{- with include "plasm-mcp.publicUrl" . }}
{{- $_ := set $config "public_url" . }}
{{- end }}
{{- /* By the Service's own names it is reached within the cluster, by the gates of `helm test` among others. */}}
{{- $service := include "plasm-mcp.fullname" . }}
{{- $within := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) }}
{{- $_ := set $config "allowed_hosts" (concat (default list $config.allowed_hosts) .Values.ingress.hosts $within | uniq) }}
{{- $_ := set $config "drain" (merge (dict "propagation" (printf "%ds" (int .Values.drain.propagationSeconds)) "budget" (printf "%ds" (int .Values.drain.budgetSeconds))) (default dict $config.drain)) }}
{{- if .Values.sealing.keys }}
{{- $keys := list }}
{{- range .Values.sealing.keys }}
{{- $keys = append $keys (dict "file" (printf "/run/secrets/plasm-mcp/sealing/%s" .)) }}
{{- end }}
{{- $_ := set $config "sealing" (dict "keys" $keys) }}
{{- end }}
{{- toYaml $config }}
{{- with .Values.upstreams }}
upstreams:
{{- range . }}
  {{ .name }}:
    {{- omit . "name" | toYaml | nindent 4 }}
{{- end }}
{{- end }}
{{- with .Values.profiles }}
profiles:
{{- range . }}
  {{ .name }}:
    {{- omit . "name" | toYaml | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Bytes of a size such as 4MiB. */}}
{{- define "plasm-mcp.bytes" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+" $text | int64 -}}
{{- if hasSuffix "GiB" $text }}{{ mul $number 1073741824 }}
{{- else if hasSuffix "MiB" $text }}{{ mul $number 1048576 }}
{{- else if hasSuffix "KiB" $text }}{{ mul $number 1024 }}
{{- else }}{{ $number }}
{{- end }}
{{- end }}

{{/* The largest body that a proxy takes: twice the gateway's own limit, so that the gateway says no, in its own words, and
     the proxy's disk is bounded all the same. */}}
{{- define "plasm-mcp.proxyBody" -}}
{{- mul 2 (include "plasm-mcp.bytes" (default "4MiB" (dig "limits" "request_bytes" "" .Values.config)) | int64) }}
{{- end }}
