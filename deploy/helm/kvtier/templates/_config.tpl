{{/* The configuration file of a component: what its values say, and what the chart knows. */}}
{{- define "kvtier.config" -}}
{{- $values := .root.Values -}}
{{- $config := deepCopy .values.config -}}
{{- if eq .name "proxy" -}}
{{- include "kvtier.followed" (dict "root" .root "config" $config) -}}
{{- else -}}
{{- include "kvtier.checkDirectories" . -}}
{{- end -}}
{{- if and (eq .name "node") $values.storage.enabled (not (hasKey $config "peers")) -}}
{{- $_ := set $config "peers" (include "kvtier.storageAddresses" .root | fromJsonArray) -}}
{{- end -}}
{{- $_ := set $config "listen" (printf "%s:%s" $values.listenAddress (include "kvtier.port" .)) -}}
{{- if include "kvtier.tls" .root -}}
{{- $_ := set $config "health_listen" (printf "%s:%d" $values.listenAddress (int64 $values.ports.health)) -}}
{{- end -}}
{{- if $values.metrics.enabled -}}
{{- $_ := set $config "metrics_listen" (printf "%s:%d" $values.listenAddress (int64 $values.ports.metrics)) -}}
{{- end -}}
{{- include "kvtier.integers" $config -}}
{{- merge $config (include "kvtier.security" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* The addresses of all storage nodes, as JSON. */}}
{{- define "kvtier.storageAddresses" -}}
{{- $addresses := list -}}
{{- range $number := until (int .Values.storage.replicas) -}}
{{- $host := include "kvtier.storageHost" (dict "root" $ "number" $number) -}}
{{- $addresses = append $addresses (printf "%s:%d" $host (int64 $.Values.ports.node)) -}}
{{- end -}}
{{- toJson $addresses -}}
{{- end -}}

{{/* Set in a proxy's configuration whom it follows, where that is not given. */}}
{{- define "kvtier.followed" -}}
{{- $values := .root.Values -}}
{{- $port := int64 $values.ports.node -}}
{{- if not .config.primary -}}
{{- if $values.node.enabled -}}
{{- $_ := set .config "primary" (printf "%s:%d" (include "kvtier.serviceHost" (dict "root" .root "suffix" "local")) $port) -}}
{{- else if $values.storage.enabled -}}
{{- $_ := set .config "primary" (printf "%s:%d" (include "kvtier.storageHost" (dict "root" .root "number" 0)) $port) -}}
{{- else -}}
{{- fail "the proxies have no node to follow: set proxy.config.primary, or enable node or storage" -}}
{{- end -}}
{{- end -}}
{{- $given := or .config.secondaries .config.secondaries_dns .config.secondaries_file -}}
{{- if and (not $given) (or $values.node.enabled $values.storage.enabled) -}}
{{- $_ := set .config "secondaries_dns" (printf "%s:%d" (include "kvtier.serviceHost" (dict "root" .root "suffix" "members")) $port) -}}
{{- end -}}
{{- end -}}

{{/* The tiers, for an environment variable. */}}
{{- define "kvtier.tiers" -}}
{{- $config := deepCopy .values.config -}}
{{- include "kvtier.integers" $config -}}
{{- toJson $config.tiers -}}
{{- end -}}

{{/* The mounts of a component that may be written to, beside its memory. */}}
{{- define "kvtier.mounts" -}}
{{- $mounts := .values.extraVolumeMounts -}}
{{- if dig "persistence" "enabled" false .values -}}
{{- $mounts = prepend $mounts (dict "name" "blocks" "mountPath" .values.persistence.mountPath) -}}
{{- end -}}
{{- toYaml $mounts -}}
{{- end -}}

{{/* Refuse an fs tier whose directory is in no volume, since the root file system is read-only, and a volume that
is too small for the tiers in it. */}}
{{- define "kvtier.checkDirectories" -}}
{{- $volume := dig "persistence" "enabled" false .values -}}
{{- $mounts := include "kvtier.mounts" . | fromYamlArray -}}
{{- $sum := 0 -}}
{{- range $tier := .values.config.tiers -}}
{{- if eq $tier.medium "fs" -}}
{{- $mounted := "" -}}
{{- range $mounts -}}
{{- if hasPrefix (printf "%s/" (clean .mountPath)) (printf "%s/" (clean $tier.directory)) -}}{{- $mounted = .name -}}{{- end -}}
{{- end -}}
{{- if not $mounted -}}
{{- fail (printf "the directory %s of tier %s is in no volume, and the root file system is read-only: mount one at or above it, with extraVolumes and extraVolumeMounts" $tier.directory $tier.name) -}}
{{- end -}}
{{- if and $volume (eq $mounted "blocks") -}}{{- $sum = add $sum (include "kvtier.bytes" $tier.capacity) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $volume (gt $sum (include "kvtier.bytes" .values.persistence.size | int64)) -}}
{{- fail (printf "%s.persistence.size is %s, but the tiers in it hold %d bytes: raise it, or lower their capacity" .name .values.persistence.size $sum) -}}
{{- end -}}
{{- end -}}
