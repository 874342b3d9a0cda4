{{- define "postern.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "postern.selector" -}}
app.kubernetes.io/name: postern
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "postern.labels" -}}
{{ include "postern.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "postern.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "postern.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "postern.environment" -}}
envFrom:
  - secretRef:
      name: {{ required "existingSecret is required: the name of a secret with POSTERN_SECRET and DATABASE_URL" .Values.existingSecret }}
env:
  - name: POSTERN_BASE_URL
    value: {{ required "baseUrl is required: the public https:// URL of the gateway" .Values.baseUrl | quote }}
  # A Service named like the release would otherwise set POSTERN_PORT to its own address.
  - name: POSTERN_PORT
    value: "8787"
  - name: POSTERN_TRUSTED_PROXIES
    value: {{ .Values.trustedProxies | quote }}
  - name: POSTERN_PROCESS_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- range $name, $value := .Values.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
{{- end -}}

{{- define "postern.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}
