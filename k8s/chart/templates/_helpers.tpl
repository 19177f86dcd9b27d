{{- /* The labels of every object beside its app.kubernetes.io/name. No selector has them: a selector cannot change. */}}
{{- define "gpu-autoscaler.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: gpu-autoscaler
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The name that the objects begin with. Their label app.kubernetes.io/name stays: the product finds its pods by it. */}}
{{- define "gpu-autoscaler.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride }}
{{- else if .Values.nameOverride }}
{{- contains .Values.nameOverride .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Values.nameOverride) | trunc 40 | trimSuffix "-" }}
{{- else -}}
gpu-autoscaler
{{- end }}
{{- end }}

{{- /* The ServiceAccount of server and rights. */}}
{{- define "gpu-autoscaler.account" -}}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) }}
{{- fail "serviceAccount.name: name the account to run as, or set serviceAccount.create to true" }}
{{- end }}
{{- .Values.serviceAccount.name | default (include "gpu-autoscaler.fullname" .) }}
{{- end }}

{{- /* The Service as pods of the cluster reach it. */}}
{{- define "gpu-autoscaler.inside" -}}
http://{{ include "gpu-autoscaler.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end }}

{{- /* Fails where the chart holds no file of a pattern: some tools leave files out of the archive they render from.
Arguments: root, pattern, what. */}}
{{- define "gpu-autoscaler.mustHave" -}}
{{- if not (.root.Files.Glob .pattern) }}
{{- fail (printf "this copy of the chart has no %s, so no %s would be installed: use the whole folder k8s/chart or the package of `helm package`" .pattern .what) }}
{{- end }}
{{- end }}

{{- /* One file of the chart; fails without it. Arguments: root, path. */}}
{{- define "gpu-autoscaler.file" -}}
{{- include "gpu-autoscaler.mustHave" (dict "root" .root "pattern" .path "what" (base .path)) }}
{{- .root.Files.Get .path }}
{{- end }}

{{- define "gpu-autoscaler.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
{{- .Values.image.repository }}{{ empty .Values.image.digest | ternary (printf ":%s" $tag) (printf "@%s" .Values.image.digest) }}
{{- end }}

{{- define "gpu-autoscaler.pullSecrets" -}}
{{- $secrets := .Values.imagePullSecrets }}
{{- range .Values.image.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end }}
{{- with $secrets -}}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Where its pods run. Of the terms of a node affinity one must match, so each gets what keeps them off GPU nodes. */}}
{{- define "gpu-autoscaler.placement" -}}
{{- $sizes := include "gpu-autoscaler.gpuSizes" . | fromYamlArray }}
{{- $noGpu := list (dict "key" "nvidia.com/gpu.present" "operator" "DoesNotExist") (dict "key" "node.kubernetes.io/instance-type" "operator" "NotIn" "values" $sizes) }}
{{- $unsized := list }}
{{- range .Values.pools }}{{ if not .size }}{{ $unsized = append $unsized (toJson .civo_pool_id | trimAll "\"") }}{{ end }}{{ end }}
{{- with $unsized }}{{ $noGpu = append $noGpu (dict "key" "kubernetes.civo.com/civo-node-pool" "operator" "NotIn" "values" .) }}{{ end }}
{{- $terms := list }}
{{- range dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list .Values.affinity | default (list dict) }}
{{- $terms = append $terms (merge (dict "matchExpressions" (concat $noGpu (.matchExpressions | default list))) .) }}
{{- end }}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) }}
{{- $where := dict "affinity" (mergeOverwrite (deepCopy .Values.affinity) (dict "nodeAffinity" $required)) }}
{{- with .Values.nodeSelector }}{{ $_ := set $where "nodeSelector" . }}{{ end }}
{{- with .Values.tolerations }}{{ $_ := set $where "tolerations" . }}{{ end }}
{{- toYaml $where }}
{{- end }}

{{- /* The sizes of Civo's GPU nodes that are known, and those of `pools`. */}}
{{- define "gpu-autoscaler.gpuSizes" -}}
{{- $known := list }}
{{- range .Values.pools }}{{ with .size }}{{ $known = append $known . }}{{ end }}{{ end }}
{{- concat (include "gpu-autoscaler.knownGpuSizes" . | fromYamlArray) $known | uniq | toYaml }}
{{- end }}

{{- define "gpu-autoscaler.knownGpuSizes" -}}
- an.g1.l40s.kube.x1
- an.g1.l40s.kube.x2
- an.g1.l40s.kube.x4
- an.g1.l40s.kube.x8
- g4g.40.kube.small
- g4g.40.kube.medium
- g4g.40.kube.large
- g4g.40.kube.xlarge
- g4g.kube.small
- g4g.kube.medium
- g4g.kube.large
- g4g.kube.xlarge
- an.g1.h100.kube.x1
- an.g1.h100.kube.x8
- an.g1.h200sxm.kube.x1
- an.g1.h200sxm.kube.x8
- an.g1.h100.kube.x2
- an.g1.h100.kube.x4
{{- end }}

{{- /* The kind of monitoring to render: none for a server outside of the cluster, which this chart gives no Service. */}}
{{- define "gpu-autoscaler.monitoring" -}}
{{ eq .Values.runsOn "cluster" | ternary .Values.monitoring "none" }}
{{- end }}

{{- /* Where people open the pages: `publicUrl`, else the first host of the ingress, else empty. */}}
{{- define "gpu-autoscaler.publicUrl" -}}
{{- if .Values.publicUrl }}
{{- trimSuffix "/" .Values.publicUrl }}
{{- else if .Values.ingress.enabled }}
{{- printf "%s://%s" (empty .Values.ingress.tls | ternary "http" "https") (first .Values.ingress.hosts).host }}
{{- end }}
{{- end }}

{{- define "gpu-autoscaler.url" -}}
{{ include "gpu-autoscaler.publicUrl" . | default "http://127.0.0.1:8080" }}
{{- end }}

{{- /* The configuration file: what the values say by name, and `config` beside it. */}}
{{- define "gpu-autoscaler.configuration" -}}
{{- $plain := eq .Values.monitoring "plain" }}
{{- $prometheus := .Values.prometheusUrl | default (printf (ternary "http://prometheus-server.%s.svc:80" "http://prometheus-operated.%s.svc:9090" $plain) .Values.monitoringNamespace) }}
{{- $alertmanagers := .Values.alertmanagerUrls | default (list (printf (ternary "http://alertmanager.%s.svc:9093" "http://alertmanager-operated.%s.svc:9093" $plain) .Values.monitoringNamespace)) }}
{{- range $key := list "mode" "pools" "public_url" }}
{{- if hasKey $.Values.config $key }}
{{- fail (printf "config.%s: set `%s` at the top of the values instead" $key (eq $key "public_url" | ternary "publicUrl" $key)) }}
{{- end }}
{{- end }}
{{- if not .Values.pools }}
{{- fail "pools: name at least one GPU node pool, with civo_pool_id and max_nodes" }}
{{- end }}
{{- $alertmanager := dict "urls" $alertmanagers }}
{{- if and .Values.alertmanagerConfig (eq .Values.monitoring "kube-prometheus-stack") }}
{{- $route := include "gpu-autoscaler.file" (dict "root" $ "path" "files/route.yaml") | fromYaml }}
{{- $_ := set $alertmanager "repeat_interval" $route.repeatInterval }}
{{- $_ := set $alertmanager "group_interval" (first $route.routes).groupInterval }}
{{- end }}
{{- $said := dict "mode" .Values.mode "prometheus" (dict "url" $prometheus) "alertmanager" $alertmanager "pools" .Values.pools }}
{{- with include "gpu-autoscaler.publicUrl" . }}
{{- $_ := set $said "public_url" . }}
{{- end }}
{{- toYaml (mergeOverwrite $said (deepCopy .Values.config)) }}
{{- end }}

{{- /* The groups of one rule file with the changes of rules.alerts. Arguments: root, file. */}}
{{- define "gpu-autoscaler.groups" -}}
{{- $root := .root }}
{{- $thresholds := include "gpu-autoscaler.file" (dict "root" $root "path" "files/thresholds.yaml") | fromYaml }}
{{- $groups := list }}
{{- range $group := (.root.Files.Get .file | fromYaml).groups }}
{{- $rules := list }}
{{- range $rule := $group.rules }}
{{- $said := dict }}
{{- if $rule.alert }}
{{- $said = get $root.Values.rules.alerts $rule.alert | default dict }}
{{- $_ := set $rule.labels "namespace" $root.Release.Namespace }}
{{- if $rule.annotations.runbook_url }}
{{- $_ := set $rule.annotations "runbook_url" (printf "%s/docs/runbooks/%s.md" (include "gpu-autoscaler.url" $root) $rule.alert) }}
{{- end }}
{{- end }}
{{- if hasKey $said "for" }}{{ $_ := set $rule "for" $said.for }}{{ end }}
{{- if hasKey $said "severity" }}{{ $_ := set $rule.labels "severity" $said.severity }}{{ end }}
{{- if hasKey $said "expr" }}{{ $_ := set $rule "expr" $said.expr }}{{ end }}
{{- if hasKey $said "threshold" }}
{{- $where := get $thresholds $rule.alert | default dict }}
{{- if $where.key }}{{ fail (printf "rules.alerts.%s.threshold: this threshold is a policy of the configuration; set %s%s" $rule.alert (hasPrefix "pools" $where.key | ternary "" "config.") $where.key) }}{{ end }}
{{- if not $where.text }}{{ fail (printf "rules.alerts.%s.threshold: this alert compares with no number that could be changed; set `expr`" $rule.alert) }}{{ end }}
{{- $_ := set $rule "expr" ($rule.expr | replace $where.text (replace $where.number (toString $said.threshold) $where.text)) }}
{{- end }}
{{- if dig "enabled" true $said }}{{ $rules = append $rules $rule }}{{ end }}
{{- end }}
{{- if $rules }}{{ $groups = append $groups (set $group "rules" $rules) }}{{ end }}
{{- end }}
{{- toYaml (dict "groups" $groups) }}
{{- end }}

{{- /* Fails where rules.alerts names an alert that no file of rules has. */}}
{{- define "gpu-autoscaler.knownAlerts" -}}
{{- $names := list }}
{{- range $path, $_ := .Files.Glob "files/rules/*.alerts.yaml" }}
{{- range ($.Files.Get $path | fromYaml).groups }}
{{- range .rules }}{{ $names = append $names .alert }}{{ end }}
{{- end }}
{{- end }}
{{- range $name, $_ := .Values.rules.alerts }}
{{- if not (has $name $names) }}
{{- fail (printf "rules.alerts.%s: there is no such alert; there are %s" $name (join ", " ($names | sortAlpha))) }}
{{- end }}
{{- end }}
{{- end }}
