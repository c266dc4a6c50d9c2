{{/* Rules between values, which no schema of single values can say well. */}}

{{- define "plasm-mcp.rules" -}}
{{- if not .Values.config.insecure_no_auth }}
{{- fail "config.insecure_no_auth: there is no login yet, and pods are reached from other hosts; say true once something before the gateway keeps strangers out" }}
{{- end }}
{{- $most := int .Values.replicaCount }}
{{- if .Values.autoscaling.enabled }}
{{- $most = int .Values.autoscaling.maxReplicas }}
{{- if gt (int .Values.autoscaling.minReplicas) $most }}
{{- fail "autoscaling.minReplicas: is more than autoscaling.maxReplicas" }}
{{- end }}
{{- end }}
{{- if and (gt $most 1) (not .Values.redis.existingSecret) }}
{{- fail "redis.existingSecret: more than one pod need a Redis that they share; name the Secret with its URL, or say replicaCount: 1" }}
{{- end }}
{{- if and .Values.redis.existingSecret (or (not .Values.sealing.existingSecret) (not .Values.sealing.keys)) }}
{{- fail "sealing.existingSecret, sealing.keys: pods that share a Redis share a keyring; name the Secret and its keys (openssl rand -base64 32 makes one)" }}
{{- end }}
{{- if and .Values.internal.enabled (not .Values.redis.existingSecret) }}
{{- fail "internal.enabled: pods find each other by the Redis that they share; name it in redis.existingSecret" }}
{{- end }}
{{- if and .Values.sealing.keys (not .Values.sealing.existingSecret) }}
{{- fail "sealing.existingSecret: sealing.keys are names of keys in this Secret" }}
{{- end }}
{{- with .Values.ingress }}
{{- if and (ne .controller "none") (not .hosts) }}
{{- fail "ingress.hosts: a way in needs the name under which clients know it" }}
{{- end }}
{{- if and (eq .controller "gateway-api") (not .gateway.parentRefs) }}
{{- fail "ingress.gateway.parentRefs: name the Gateway that the route belongs to" }}
{{- end }}
{{- if and .tls.enabled (not .tls.existingSecret) (ne .controller "gateway-api") }}
{{- fail "ingress.tls.existingSecret: name the Secret with the certificate" }}
{{- end }}
{{- end }}
{{- $artifacts := default dict .Values.config.artifacts }}
{{- range $key := list "access_key" "secret_key" }}
{{- if kindIs "string" (get $artifacts $key) }}
{{- if get $artifacts $key }}
{{- fail (printf "config.artifacts.%s: a secret stands in no values file; take {env: NAME} with extraEnv, or {file: PATH} with extraVolumes" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (gt $most 1) (hasPrefix "file://" (default "" $artifacts.store)) (not .Values.extraVolumeMounts) }}
{{- fail "config.artifacts.store: all pods must see this folder; mount a volume that they share with extraVolumes and extraVolumeMounts, or name a bucket" }}
{{- end }}
{{- range $kind, $items := dict "upstreams" .Values.upstreams "profiles" .Values.profiles }}
{{- $seen := dict }}
{{- range $items }}
{{- if hasKey $seen .name }}{{ fail (printf "%s: %q stands twice" $kind .name) }}{{ end }}
{{- $_ := set $seen .name true }}
{{- end }}
{{- end }}
{{- range $upstream := .Values.upstreams }}
{{- range $where, $map := dict "headers" (default dict $upstream.headers) "env" (default dict $upstream.env) }}
{{- range $name, $value := $map }}
{{- if and (kindIs "string" $value) (not (contains "${" $value)) (regexMatch "(?i)authorization|cookie|token|secret|password|api[-_]?key" $name) }}
{{- fail (printf "upstreams: %s.%s of %s: a secret stands in no values file; take {env: NAME} with extraEnv, or {file: PATH} with extraVolumes" $where $name $upstream.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
