{{- /* squall.programs: the programs that run as Deployments. Each has a manifest manifests/NAME.yaml, whose first
object is the Deployment squall-NAME, and a value of its name. */ -}}
{{- define "squall.programs" -}}
[worker, probes, crdbridge]
{{- end }}

{{- /* squall.components: the folders of manifests/components that the values switch on. */ -}}
{{- define "squall.components" -}}
{{- range $name, $wanted := .Values.components }}
{{- if $wanted }}
- {{ $name | kebabcase }}
{{- end }}
{{- end }}
{{- range $name, $value := dict "namespace-opt-in" .Values.namespaceOptIn "safe-mode" .Values.safeMode }}
{{- if ne $value "warn" }}
- {{ printf "%s-%s" $name $value }}
{{- end }}
{{- end }}
{{- if .Values.networkPolicy.enabled }}
- network-policy
{{- end }}
{{- end }}

{{- /* squall.labels: of every object of the chart. */ -}}
{{- define "squall.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63)
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_" | trunc 63) }}
{{- toYaml (merge $labels .Values.commonLabels) }}
{{- end }}

{{- /* squall.mark: adds the labels and annotations of every object to .object, and also .labels and .annotations.
What the object has already stays. */ -}}
{{- define "squall.mark" -}}
{{- $metadata := .object.metadata }}
{{- $_ := set $metadata "labels" (merge (default dict $metadata.labels) (default dict .labels) (include "squall.labels" .root | fromYaml)) }}
{{- $annotations := merge (default dict $metadata.annotations) (default dict .annotations) .root.Values.commonAnnotations }}
{{- if $annotations }}
{{- $_ := set $metadata "annotations" $annotations }}
{{- end }}
{{- end }}

{{- /* squall.objects: those of a file, marked, with what the values change. Deployments have a template of their own. */ -}}
{{- define "squall.objects" -}}
{{- range $text := splitList "\n---\n" (.root.Files.Get .file) }}
{{- $object := fromYaml $text }}
{{- if and $object.kind (ne $object.kind "Deployment") (not (and (eq $object.kind "Namespace") (eq $object.metadata.name $.root.Release.Namespace))) }}
{{- include "squall.change" (dict "root" $.root "object" $object) }}
{{- include "squall.mark" (dict "root" $.root "object" $object "labels" $.labels "annotations" $.annotations) }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- /* squall.change: changes an object as the values ask for. */ -}}
{{- define "squall.change" -}}
{{- $object := .object }}
{{- $values := .root.Values }}
{{- $name := $object.metadata.name }}
{{- $short := trimPrefix "squall-" $name }}
{{- $metadata := $object.metadata }}
{{- if eq $object.kind "ValidatingAdmissionPolicyBinding" }}
  {{- with index (dict "namespace-opt-in" $values.namespaceOptIn "safe-mode" $values.safeMode) $short }}
    {{- $_ := set $object.spec "validationActions" (list (index (dict "off" "Audit" "warn" "Warn" "enforce" "Deny") .)) }}
  {{- end }}
{{- else if hasSuffix "WebhookConfiguration" $object.kind }}
  {{- range $webhook := $object.webhooks }}
    {{- $_ := mergeOverwrite $webhook (deepCopy (index $values.webhooks ($short | camelcase | untitle))) }}
  {{- end }}
  {{- if and (eq $short "on-init") $values.components.onInitCertManager }}
    {{- $_ := set $metadata "annotations" (dict "cert-manager.io/inject-ca-from" "squall-system/squall-on-init") }}
  {{- end }}
{{- else if and (eq $object.kind "ServiceAccount") (has $short (include "squall.programs" . | fromYamlArray)) }}
  {{- with (index $values $short).serviceAccount.annotations }}
    {{- $_ := set $metadata "annotations" (deepCopy .) }}
  {{- end }}
{{- else if eq $object.kind "PodMonitor" }}
  {{- $_ := set $metadata "labels" (deepCopy $values.metrics.podMonitor.labels) }}
  {{- range $endpoint := $object.spec.podMetricsEndpoints }}
    {{- $_ := set $endpoint "interval" $values.metrics.podMonitor.interval }}
    {{- if $values.metrics.tokenKey }}
      {{- $_ := set $endpoint "authorization" (dict "credentials" (dict "name" $values.metrics.existingSecret "key" $values.metrics.tokenKey)) }}
    {{- end }}
  {{- end }}
{{- else if eq $object.kind "PrometheusRule" }}
  {{- $_ := set $metadata "labels" (deepCopy $values.metrics.prometheusRule.labels) }}
{{- else if eq $object.kind "ClusterRole" }}
  {{- if and $values.rbac.aggregateToEdit (has $short (list "disruptions" "disruption-crons" "disruption-rollouts" "disruption-scenarios")) }}
    {{- $_ := set $metadata "labels" (dict "rbac.authorization.k8s.io/aggregate-to-edit" "true" "rbac.authorization.k8s.io/aggregate-to-admin" "true") }}
  {{- else if and (eq $short "view") (not $values.rbac.aggregateToView) }}
    {{- $_ := unset $metadata "labels" }}
  {{- end }}
{{- else if and (eq $object.kind "Namespace") $values.chaosPods.pinImage }}
  {{- $_ := set $metadata "annotations" (dict "chaos.squall.dev/injector-image" (include "squall.image" (dict "root" .root "name" "injector"))) }}
{{- else if and (eq $object.kind "NetworkPolicy") (eq $name "squall-system") }}
  {{- $ingress := list (dict "from" $values.networkPolicy.metricsFrom "ports" (list (dict "port" "metrics"))) }}
  {{- $ports := list }}
  {{- range $component, $port := dict "onInit" "on-init" "gracefulDelete" "graceful-del" "readinessGate" "readiness-gate" "requesters" "requesters" }}
    {{- if index $values.components $component }}
      {{- $ports = append $ports (dict "port" $port) }}
    {{- end }}
  {{- end }}
  {{- if $ports }}
    {{- $webhooks := dict "ports" $ports }}
    {{- with $values.networkPolicy.webhooksFrom }}
      {{- $_ := set $webhooks "from" . }}
    {{- end }}
    {{- $ingress = append $ingress $webhooks }}
  {{- end }}
  {{- $_ := set $object.spec "ingress" $ingress }}
{{- end }}
{{- end }}

{{- /* squall.image: the image .name of the values, as REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@DIGEST. */ -}}
{{- define "squall.image" -}}
{{- $images := .root.Values.images }}
{{- $image := index $images .name }}
{{- $registry := default $images.registry $image.registry }}
{{- with $registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ coalesce $image.tag $images.tag .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* squall.pullSecrets: the names of imagePullSecrets, each of which is a name or {name: NAME}. */ -}}
{{- define "squall.pullSecrets" -}}
{{- range .Values.imagePullSecrets }}
- {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
{{- end }}
{{- end }}

{{- /* squall.settings: settings.env, over it the typed values, and over these the value settings. */ -}}
{{- define "squall.settings" -}}
{{- $settings := dict }}
{{- range $line := splitList "\n" (.Files.Get "manifests/settings.env") }}
{{- if and $line (not (hasPrefix "#" $line)) }}
{{- $parts := splitn "=" 2 $line }}
{{- $_ := set $settings $parts._0 $parts._1 }}
{{- end }}
{{- end }}
{{- $v := .Values }}
{{- $pullSecrets := include "squall.pullSecrets" . | fromYamlArray }}
{{- $typed := dict
  "SQUALL_TEMPORAL_ADDRESS" (ternary "squall-temporal.squall-system:7233" $v.temporal.address $v.temporal.bundled.enabled)
  "SQUALL_TEMPORAL_NAMESPACE" $v.temporal.namespace
  "SQUALL_TEMPORAL_TLS" $v.temporal.tls.enabled
  "SQUALL_TEMPORAL_TLS_CA" (include "squall.file" (list "temporal" $v.temporal.tls.caKey))
  "SQUALL_TEMPORAL_TLS_CERT" (include "squall.file" (list "temporal" $v.temporal.tls.certKey))
  "SQUALL_TEMPORAL_TLS_KEY" (include "squall.file" (list "temporal" $v.temporal.tls.keyKey))
  "SQUALL_INJECTOR_IMAGE" (include "squall.image" (dict "root" . "name" "injector"))
  "SQUALL_IMAGE_PULL_POLICY" $v.images.pullPolicy
  "SQUALL_CHAOS_POD_IMAGE_PULL_SECRETS" (join "," $pullSecrets)
  "SQUALL_CHAOS_POD_PRIORITY_CLASS" $v.chaosPods.priorityClassName
  "SQUALL_CHAOS_POD_SELINUX_TYPE" $v.chaosPods.selinuxType
  "SQUALL_CHAOS_POD_CPU" $v.chaosPods.cpu
  "SQUALL_CHAOS_PODS_PER_NODE" $v.chaosPods.perNode
  "SQUALL_CLUSTER_NAME" $v.clusterName
  "SQUALL_LOG_LEVEL" $v.logLevel
  "SQUALL_WATCH_NAMESPACES" (join "," $v.watchNamespaces)
  "SQUALL_METRICS_TOKEN_FILE" (include "squall.file" (list "metrics" $v.metrics.tokenKey))
  "SQUALL_NOTIFY_WEBHOOK_URL" $v.notifications.webhook.url
  "SQUALL_NOTIFY_WEBHOOK_SECRET_FILE" (include "squall.file" (list "notify" $v.notifications.webhook.secretKey))
  "SQUALL_NOTIFY_SLACK_CHANNEL" $v.notifications.slack.channel
  "SQUALL_NOTIFY_SLACK_TOKEN_FILE" (include "squall.file" (list "notify" $v.notifications.slack.tokenKey))
  "SQUALL_NOTIFY_LEAST_TYPE" $v.notifications.leastType
  "SQUALL_TRACES_ENDPOINT" $v.traces.endpoint
  "SQUALL_TRACES_SAMPLING" $v.traces.sampling }}
{{- range $more := list $typed $v.settings }}
{{- range $name, $value := $more }}
{{- if not (or (kindIs "invalid" $value) (and (eq (toString $value) "") (not (hasKey $v.settings $name)))) }}
{{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ $value = int64 $value }}{{ end }}
{{- $_ := set $settings $name (toString $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{- /* squall.file: the path of a key of a Secret that the programs mount; empty without a key. */ -}}
{{- define "squall.file" -}}
{{- with index . 1 }}/etc/squall/{{ index $ 0 }}/{{ . }}{{ end }}
{{- end }}

{{- /* squall.pod: changes .template, the pod template of a manifest, as .values ask for, which are those of a program
or of the bundled Temporal. .image is the name of its image in the values. */ -}}
{{- define "squall.pod" -}}
{{- $root := .root }}
{{- $values := .values }}
{{- $metadata := .template.metadata }}
{{- $_ := set $metadata "labels" (merge $metadata.labels $values.podLabels $root.Values.commonLabels) }}
{{- with merge (default dict $metadata.annotations) $values.podAnnotations $root.Values.commonAnnotations }}
{{- $_ := set $metadata "annotations" . }}
{{- end }}
{{- $pod := .template.spec }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" "hostAliases" "dnsPolicy" "dnsConfig" }}
{{- with index $values $field }}
{{- $_ := set $pod $field . }}
{{- end }}
{{- end }}
{{- with $values.podSecurityContext }}
{{- $_ := set $pod "securityContext" . }}
{{- end }}
{{- $pullSecrets := list }}
{{- range include "squall.pullSecrets" $root | fromYamlArray }}
{{- $pullSecrets = append $pullSecrets (dict "name" .) }}
{{- end }}
{{- if $pullSecrets }}
{{- $_ := set $pod "imagePullSecrets" $pullSecrets }}
{{- end }}
{{- $container := first $pod.containers }}
{{- $_ := set $container "image" (include "squall.image" (dict "root" $root "name" .image)) }}
{{- with $root.Values.images.pullPolicy }}
{{- $_ := set $container "imagePullPolicy" . }}
{{- end }}
{{- range $field := list "resources" "securityContext" }}
{{- with index $values $field }}
{{- $_ := set $container $field . }}
{{- end }}
{{- end }}
{{- range $field, $more := dict "env" "extraEnv" "envFrom" "extraEnvFrom" "args" "extraArgs" "volumeMounts" "extraVolumeMounts" }}
{{- with index $values $more }}
{{- $_ := set $container $field (concat (default list (index $container $field)) .) }}
{{- end }}
{{- end }}
{{- with $values.extraVolumes }}
{{- $_ := set $pod "volumes" (concat (default list $pod.volumes) .) }}
{{- end }}
{{- $secrets := include "squall.secrets" $root | fromYaml }}
{{- range $volume := $pod.volumes }}
{{- if and $volume.secret (hasKey $secrets $volume.name) }}
{{- $_ := set $volume.secret "secretName" (index $secrets $volume.name) }}
{{- end }}
{{- end }}
{{- range $variable := $container.env }}
{{- if eq $variable.name "SQUALL_TRACES_HEADERS" }}
{{- $_ := set $variable.valueFrom.secretKeyRef "name" $secrets.traces }}
{{- end }}
{{- end }}
{{- end }}

{{- /* squall.secrets: the Secrets that the values name, by the name of the volume. */ -}}
{{- define "squall.secrets" -}}
temporal: {{ .Values.temporal.existingSecret }}
metrics: {{ .Values.metrics.existingSecret }}
notify: {{ .Values.notifications.existingSecret }}
traces: {{ .Values.traces.existingSecret }}
{{- end }}

{{- /* squall.deployment: the Deployment of a program with what the values and the components add. A component has
a patch PROGRAM.yaml; its env, ports, volumeMounts and volumes come first, as kustomize has them. */ -}}
{{- define "squall.deployment" -}}
{{- $root := .root }}
{{- $program := .program }}
{{- $values := index $root.Values $program }}
{{- $object := fromYaml (first (splitList "\n---\n" ($root.Files.Get (printf "manifests/%s.yaml" $program)))) }}
{{- with $values.annotations }}
{{- $_ := set $object.metadata "annotations" (deepCopy .) }}
{{- end }}
{{- include "squall.mark" (dict "root" $root "object" $object "labels" (dict "app.kubernetes.io/part-of" "squall")) }}
{{- $_ := set $object.spec "replicas" $values.replicas }}
{{- with $values.strategy }}
{{- $_ := set $object.spec "strategy" . }}
{{- end }}
{{- if ne (toString $values.revisionHistoryLimit) "" }}
{{- $_ := set $object.spec "revisionHistoryLimit" (int $values.revisionHistoryLimit) }}
{{- end }}
{{- $template := $object.spec.template }}
{{- $_ := set $template.metadata "annotations" (dict "checksum/settings" (include "squall.settings" $root | sha256sum)) }}
{{- $container := first $template.spec.containers }}
{{- range $folder := include "squall.components" $root | fromYamlArray }}
{{- with $root.Files.Get (printf "manifests/components/%s/%s.yaml" $folder $program) }}
{{- $patch := (fromYaml .).spec.template.spec }}
{{- $patched := first $patch.containers }}
{{- range $field := list "env" "ports" "volumeMounts" }}
{{- $_ := set $container $field (concat (default list (index $patched $field)) (default list (index $container $field))) }}
{{- end }}
{{- $_ := set $template.spec "volumes" (concat (default list $patch.volumes) (default list $template.spec.volumes)) }}
{{- end }}
{{- end }}
{{- include "squall.pod" (dict "root" $root "template" $template "values" $values "image" "squall") }}
{{ toYaml $object }}
{{- end }}

{{- /* squall.testMetadata: of an object of helm test. */ -}}
{{- define "squall.testMetadata" -}}
{{- $name := default "squall-test" .name }}
{{- $object := dict "metadata" (dict "name" $name) }}
{{- with .namespace }}
{{- $_ := set $object.metadata "namespace" . }}
{{- end }}
{{- include "squall.mark" (dict "root" .root "object" $object
  "labels" (dict "app.kubernetes.io/name" $name "app.kubernetes.io/part-of" "squall")
  "annotations" (dict "helm.sh/hook" "test" "helm.sh/hook-weight" .weight "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded")) }}
{{- toYaml $object.metadata }}
{{- end }}

{{- /* squall.testPod: the spec of a pod of helm test, up to its container. The pod runs where the worker may. */ -}}
{{- define "squall.testPod" -}}
restartPolicy: Never
activeDeadlineSeconds: 120
enableServiceLinks: false
{{- range $field := list "nodeSelector" "tolerations" "priorityClassName" "hostAliases" "dnsPolicy" "dnsConfig" }}
{{- with index $.Values.worker $field }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- with .Values.worker.podSecurityContext }}
securityContext: {{ toJson . }}
{{- else }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- with include "squall.pullSecrets" . | fromYamlArray }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
containers:
- name: doctor
  image: {{ include "squall.image" (dict "root" . "name" "cli") }}
  {{- with .Values.images.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  resources: {requests: {cpu: 50m, memory: 64Mi}}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
{{- end }}
