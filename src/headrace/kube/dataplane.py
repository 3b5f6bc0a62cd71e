"""The objects that run the data plane: Deployments, Services and disruption budgets, as they should be. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.control.model import Json
from headrace.control.naming import channel_host
from headrace.core.resources.features import DISABLED, STRICT
from headrace.kube import labels
from headrace.kube.contractmaps import BROKERS, CHANNELS
from headrace.kube.executors import with_executors
from headrace.kube.settings import PlaneSettings, Size

_CONTRACT = "/etc/headrace/contract"
_KAFKA_AUTH = "/etc/headrace/kafka"
_CERTIFICATE = "/etc/headrace/tls"
_RECEIVER_PORT, _RECEIVER_TLS, _RECEIVER_OPS, _DISPATCHER_OPS = 8080, 8443, 9091, 8081
_TMP = "/tmp"
_API_SERVER = "https://kubernetes.default.svc"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_IDENTITY = {
    f"{role}{suffix}": value
    for role in ("ISSUER", "TOKEN_SERVER")
    for suffix, value in (("", _API_SERVER), ("_CA_FILE", f"{_ACCOUNT}/ca.crt"), ("_TOKEN_FILE", f"{_ACCOUNT}/token"))
}
"""The cluster is the issuer whose tokens receivers take, and gives dispatchers theirs."""


@dataclass(frozen=True, slots=True)
class Served:
    """A Broker or KafkaChannel that needs a dispatcher."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def only(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


def dispatcher_for(served: Served, settings: PlaneSettings) -> str:
    """The name of its dispatcher, which is also that of the ConfigMap with its contract."""
    if served.kind == "Broker" and not settings.dispatcher_per_broker:
        return labels.BROKER_DISPATCHER
    return labels.dispatcher_name(served.kind, served.namespace, served.name)


def wanted_objects(
    served: Iterable[Served], settings: PlaneSettings, namespace: str, owners: list[Json], encryption: str = DISABLED
) -> list[Json]:
    """All objects of the installation's namespace. A dispatcher per topic's driver: never two pods of one at a time.

    `encryption`: the feature `transport-encryption`.
    """
    place = _Place(settings, namespace, owners)
    groups: dict[str, list[Served]] = {}
    for one in served:
        groups.setdefault(dispatcher_for(one, settings), []).append(one)
    objects = [*place.receiver(encryption)]
    for name in sorted(groups):
        objects += place.dispatcher(name, groups[name])
    return objects


def channel_service(name: str, namespace: str, uid: str, own_namespace: str, domain: str) -> Json:
    """The Service that gives a channel its host name: an alias of the receiver's."""
    host = channel_host(name, namespace, domain)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": host.partition(".")[0],
            "namespace": namespace,
            "labels": labels.MANAGED | {labels.COMPONENT: "channel", "messaging.knative.dev/role": "kafka-channel"},
            "ownerReferences": [
                {
                    "apiVersion": "messaging.knative.dev/v1beta1",
                    "kind": "KafkaChannel",
                    "name": name,
                    "uid": uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {"type": "ExternalName", "externalName": f"{labels.CHANNEL_INGRESS}.{own_namespace}.svc.{domain}"},
    }


@dataclass(frozen=True, slots=True)
class _Place:
    settings: PlaneSettings
    namespace: str
    owners: list[Json]

    def receiver(self, encryption: str) -> list[Json]:
        name, tags = labels.RECEIVER, {labels.COMPONENT: "receiver"}
        files = f"{_CONTRACT}/brokers/data,{_CONTRACT}/channels/data"
        arguments = ["receiver", f"--contract=file:{files}", "--host=0.0.0.0", f"--ops-port={_RECEIVER_OPS}"]
        plain, secure = encryption != STRICT, encryption != DISABLED
        doors = [("http", 80, _RECEIVER_PORT)] * plain + [("https", 443, _RECEIVER_TLS)] * secure
        if secure:
            arguments += [f"--tls-cert={_CERTIFICATE}/tls.crt", f"--tls-key={_CERTIFICATE}/tls.key"]
        arguments += [f"--port={_RECEIVER_PORT if plain else _RECEIVER_TLS}"]
        arguments += [f"--tls-port={_RECEIVER_TLS}"] * (plain and secure)
        pod = self._pod(
            name,
            arguments,
            self.settings.receiver,
            [*(_port(title, target) for title, _, target in doors), _port("metrics", _RECEIVER_OPS)],
            {"brokers": BROKERS, "channels": CHANNELS},
        )
        if secure:
            pod["containers"][0]["volumeMounts"].append({"name": "tls", "mountPath": _CERTIFICATE, "readOnly": True})
            pod["volumes"].append({"name": "tls", "secret": {"secretName": labels.INGRESS_CERTIFICATE}})
        # Endpoints hear of a pod's end a moment after it does.
        pod["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", "3"]}}}
        pod["terminationGracePeriodSeconds"] = 20
        spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        pod["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": self._selector(name)}}]
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        replicas = self.settings.receivers or None
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": self._metadata(name, tags),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": self._selector(name)}},
        }
        ports = [*doors, ("http-metrics", _RECEIVER_OPS, _RECEIVER_OPS)]
        services = [self._service(one, name, tags, ports) for one in (labels.BROKER_INGRESS, labels.CHANNEL_INGRESS)]
        return [self._deployment(name, tags, pod, strategy, replicas), *services, budget]

    def dispatcher(self, name: str, served: list[Served]) -> list[Json]:
        tags = {labels.COMPONENT: "dispatcher"}
        shared = name == labels.BROKER_DISPATCHER
        if not shared:
            tags[labels.CHANNEL_NAMESPACE] = served[0].namespace
            tags[labels.CHANNEL_NAME] = labels.label_value(served[0].name)
        only = ["Broker/*/*"] if shared else [one.only for one in served]
        arguments = ["dispatcher", f"--contract=file:{_CONTRACT}/own/data", *(f"--only={one}" for one in only)]
        pod = self._pod(
            name,
            [*arguments, f"--ops-port={_DISPATCHER_OPS}", f"--data-dir={_TMP}/headrace"],
            self.settings.dispatcher,
            [_port("metrics", _DISPATCHER_OPS)],
            {"own": name},
        )
        pod["terminationGracePeriodSeconds"] = 30
        pod = with_executors(pod, name, self.settings, self.namespace, _API_SERVER, _ACCOUNT)
        service = self._service(name, name, tags, [("http-metrics", _DISPATCHER_OPS, _DISPATCHER_OPS)])
        return [self._deployment(name, tags, pod, {"type": "Recreate"}, 1), service]

    def _selector(self, name: str) -> dict[str, str]:
        return {labels.NAME: name, "app.kubernetes.io/part-of": "headrace"}

    def _metadata(self, name: str, tags: dict[str, str]) -> Json:
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": labels.MANAGED | {labels.NAME: name} | tags,
            "ownerReferences": self.owners,
        }

    def _service(self, name: str, pods: str, tags: dict[str, str], ports: list[tuple[str, int, int]]) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self._metadata(name, tags),
            "spec": {
                "selector": self._selector(pods),
                "ports": [
                    {"name": title, "port": port, "targetPort": target, "protocol": "TCP"} for title, port, target in ports
                ],
            },
        }

    def _deployment(self, name: str, tags: dict[str, str], pod: Json, strategy: Json, replicas: int | None) -> Json:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self._metadata(name, tags),
            "spec": {
                **({} if replicas is None else {"replicas": replicas}),
                "strategy": strategy,
                "selector": {"matchLabels": self._selector(name)},
                "template": {"metadata": {"labels": labels.MANAGED | {labels.NAME: name} | tags}, "spec": pod},
            },
        }

    def _pod(self, name: str, arguments: list[str], size: Size, ports: list[Json], maps: dict[str, str]) -> Json:
        settings = self.settings
        mounts = [{"name": f"contract-{place}", "mountPath": f"{_CONTRACT}/{place}", "readOnly": True} for place in maps]
        volumes: list[Json] = [{"name": f"contract-{place}", "configMap": {"name": one}} for place, one in maps.items()]
        mounts.append({"name": "tmp", "mountPath": _TMP})
        volumes.append({"name": "tmp", "emptyDir": {}})
        env = [
            {"name": "HEADRACE_KAFKA_BOOTSTRAP_SERVERS", "value": settings.bootstrap},
            {"name": "HEADRACE_INSTANCE", "value": settings.instance},
            {"name": "HEADRACE_LOGS_FORMAT", "value": "json"},
            {"name": "HEADRACE_LOGS_LEVEL", "value": settings.log_level},
            {"name": "HEADRACE_KUBERNETES_SECRETS", "value": "true"},
            {"name": "HEADRACE_DISPATCHER_OPS_HOST", "value": "0.0.0.0"},
            *({"name": f"HEADRACE_IDENTITY_{name}", "value": value} for name, value in _IDENTITY.items()),
            {"name": "HOME", "value": _TMP},
        ]
        if settings.auth_secret:
            mounts.append({"name": "kafka", "mountPath": _KAFKA_AUTH, "readOnly": True})
            volumes.append({"name": "kafka", "secret": {"secretName": settings.auth_secret}})
            env.append({"name": "HEADRACE_KAFKA_AUTH", "value": _KAFKA_AUTH})
        return {
            "serviceAccountName": settings.account,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            **({"imagePullSecrets": [{"name": one} for one in settings.pull_secrets]} if settings.pull_secrets else {}),
            "containers": [
                {
                    "name": name if len(name) <= 40 else "dispatcher",
                    "image": settings.image,
                    "imagePullPolicy": settings.pull_policy,
                    "args": arguments,
                    "env": env,
                    "ports": ports,
                    "resources": size.resources,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "startupProbe": {
                        "httpGet": {"path": "/healthz", "port": "metrics"},
                        "periodSeconds": 2,
                        "failureThreshold": 60,
                    },
                    "livenessProbe": {
                        "httpGet": {"path": "/healthz", "port": "metrics"},
                        "periodSeconds": 10,
                        "failureThreshold": 3,
                    },
                    "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 3},
                    "volumeMounts": mounts,
                }
            ],
            "volumes": volumes,
        }


def _port(name: str, number: int) -> Json:
    return {"name": name, "containerPort": number, "protocol": "TCP"}
