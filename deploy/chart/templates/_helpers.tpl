{{- /* squall.objects: those of a file, with the labels and annotations given, without
Deployments, which have a template of their own. */ -}}
{{- define "squall.objects" -}}
{{- range $text := splitList "\n---\n" (.root.Files.Get .file) }}
{{- $object := fromYaml $text }}
{{- if and $object.kind (ne $object.kind "Deployment") (not (and (eq $object.kind "Namespace") (eq $object.metadata.name $.root.Release.Namespace))) }}
{{- $switch := index (dict "squall-namespace-opt-in" $.root.Values.namespaceOptIn "squall-safe-mode" $.root.Values.safeMode) $object.metadata.name }}
{{- if and (eq $object.kind "ValidatingAdmissionPolicyBinding") $switch }}
{{- $_ := set $object.spec "validationActions" (list (index (dict "off" "Audit" "warn" "Warn" "enforce" "Deny") $switch)) }}
{{- end }}
{{- if $.labels }}
{{- $_ := set $object.metadata "labels" (merge (deepCopy $.labels) (default dict $object.metadata.labels)) }}
{{- end }}
{{- if $.annotations }}
{{- $_ := set $object.metadata "annotations" (merge (deepCopy $.annotations) (default dict $object.metadata.annotations)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- /* squall.settings: settings.env, and over it the values. */ -}}
{{- define "squall.settings" -}}
{{- $settings := dict }}
{{- range $line := splitList "\n" (.Files.Get "manifests/settings.env") }}
{{- if and $line (not (hasPrefix "#" $line)) }}
{{- $parts := splitn "=" 2 $line }}
{{- $_ := set $settings $parts._0 $parts._1 }}
{{- end }}
{{- end }}
{{- $_ := set $settings "SQUALL_TEMPORAL_ADDRESS" (default "squall-temporal.squall-system:7233" .Values.temporal.address) }}
{{- $_ := set $settings "SQUALL_TEMPORAL_NAMESPACE" .Values.temporal.namespace }}
{{- $_ := set $settings "SQUALL_TEMPORAL_TLS" (toString .Values.temporal.tls) }}
{{- $_ := set $settings "SQUALL_INJECTOR_IMAGE" .Values.images.injector }}
{{- if .Values.images.pullPolicy }}
{{- $_ := set $settings "SQUALL_IMAGE_PULL_POLICY" .Values.images.pullPolicy }}
{{- end }}
{{- with .Values.images.pullSecrets }}
{{- $_ := set $settings "SQUALL_CHAOS_POD_IMAGE_PULL_SECRETS" (join "," .) }}
{{- end }}
{{- toYaml (merge (dict) .Values.settings $settings) }}
{{- end }}

{{- /* squall.pullSecrets: those of the values, as a pod lists them. */ -}}
{{- define "squall.pullSecrets" -}}
{{- range .Values.images.pullSecrets }}
- name: {{ . }}
{{- end }}
{{- end }}

{{- /* squall.deployment: the first object of a program's manifest with what the values say of it; env,
ports, mounts and volumes are added to those it has. */ -}}
{{- define "squall.deployment" -}}
{{- $object := fromYaml (first (splitList "\n---\n" (.root.Files.Get .file))) }}
{{- $_ := set $object.metadata "labels" (merge (dict "app.kubernetes.io/part-of" "squall") $object.metadata.labels) }}
{{- $_ := set $object.spec "replicas" .values.replicas }}
{{- $template := $object.spec.template }}
{{- $_ := set $template.metadata "annotations" (dict "checksum/settings" (include "squall.settings" .root | sha256sum)) }}
{{- $pod := $template.spec }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- if index $.values $field }}
{{- $_ := set $pod $field (index $.values $field) }}
{{- end }}
{{- end }}
{{- with include "squall.pullSecrets" .root | fromYamlArray }}
{{- $_ := set $pod "imagePullSecrets" . }}
{{- end }}
{{- $container := first $pod.containers }}
{{- $_ := set $container "image" .root.Values.images.squall }}
{{- if .root.Values.images.pullPolicy }}
{{- $_ := set $container "imagePullPolicy" .root.Values.images.pullPolicy }}
{{- end }}
{{- $_ := set $container "resources" .values.resources }}
{{- $_ := set $container "env" (concat .env $container.env) }}
{{- $_ := set $container "ports" (concat .ports $container.ports) }}
{{- $_ := set $container "volumeMounts" (concat .mounts $container.volumeMounts) }}
{{- $_ := set $pod "volumes" (concat .volumes $pod.volumes) }}
{{ toYaml $object }}
{{- end }}
