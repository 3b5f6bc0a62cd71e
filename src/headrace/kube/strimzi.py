"""Resources of Strimzi 1.x (`kafka.strimzi.io/v1`) for a Kafka on Kubernetes: what the hands-on session's cluster is by default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.base.errors import UsageError

_API = "kafka.strimzi.io/v1"
_CLUSTER = "strimzi.io/cluster"
_FIRST_BROKER = 10
Json = dict[str, Any]


class Access(StrEnum):
    """How users prove who they are: nobody asks, by certificate, or by password."""

    NONE = "none"
    TLS = "tls"
    SCRAM = "scram-sha-512"


@dataclass(frozen=True, slots=True)
class Topic:
    """A KafkaTopic."""

    name: str
    partitions: int = 3
    replicas: int = 3
    config: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class StrimziCluster:
    """A Kafka cluster as Strimzi is to make it. `controllers` 0: the brokers are the controllers too.

    `access`: what the listeners `tls` (always with TLS) and, with SCRAM, `plain` ask of users; `users` get a KafkaUser each.
    """

    name: str = "my-cluster"
    namespace: str = ""
    controllers: int = 3
    brokers: int = 3
    controller_storage: str = "5Gi"
    broker_storage: str = "10Gi"
    kafka_version: str = ""
    access: Access = Access.NONE
    topics: Sequence[Topic] = (Topic("my-topic", config={"min.insync.replicas": 2, "retention.bytes": 1 << 30}),)
    users: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.brokers < 1 or self.controllers < 0 or (self.controllers or self.brokers) % 2 == 0:
            raise UsageError("a cluster has brokers, and an odd number of controllers", subject=f"cluster {self.name}")
        if self.users and self.access is Access.NONE:
            raise UsageError(
                "users need a way to prove who they are", subject=f"cluster {self.name}", hint="Choose tls or scram-sha-512"
            )

    def manifests(self) -> Iterator[Json]:
        """All resources, in the order in which they are to be created."""
        if self.controllers:
            yield self._pool("controller", ["controller"], self.controllers, "[0-9]", "1Gi", self.controller_storage)
            ids = f"[{_FIRST_BROKER}-100]"
            yield self._pool("broker", ["broker"], self.brokers, ids, "2Gi", self.broker_storage)
        else:
            yield self._pool("dual-role", ["controller", "broker"], self.brokers, "[0-9]", "2Gi", self.broker_storage)
        yield self._resource("Kafka", self.name, self._spec(), of_cluster=False)
        for topic in self.topics:
            spec: Json = {"partitions": topic.partitions, "replicas": min(topic.replicas, self.brokers)}
            yield self._resource("KafkaTopic", topic.name, spec | ({"config": dict(topic.config)} if topic.config else {}))
        for user in self.users:
            yield self._resource("KafkaUser", user, {"authentication": {"type": self.access.value}})

    def _spec(self) -> Json:
        asked = {} if self.access is Access.NONE else {"authentication": {"type": self.access.value}}
        plain = asked if self.access is Access.SCRAM else {}
        copies, in_sync = min(3, self.brokers), min(2, self.brokers)
        kafka: Json = {"version": self.kafka_version} if self.kafka_version else {}
        kafka |= {
            "config": {
                "num.partitions": 3,
                "default.replication.factor": copies,
                "min.insync.replicas": in_sync,
                "offsets.topic.replication.factor": copies,
                "transaction.state.log.replication.factor": copies,
                "transaction.state.log.min.isr": in_sync,
                "share.coordinator.state.topic.replication.factor": copies,
                "share.coordinator.state.topic.min.isr": in_sync,
                "auto.create.topics.enable": False,
            },
            "listeners": [
                {"name": "plain", "port": 9092, "type": "internal", "tls": False, **plain},
                {"name": "tls", "port": 9093, "type": "internal", "tls": True, **asked},
            ],
        }
        return {"kafka": kafka, "entityOperator": {"topicOperator": {}, "userOperator": {}}}

    def _pool(self, name: str, roles: list[str], replicas: int, ids: str, memory: str, storage: str) -> Json:
        # Requests equal to limits would need a whole processor each; memory is what must not be shared.
        resources = {"requests": {"cpu": "500m", "memory": memory}, "limits": {"cpu": "1000m", "memory": memory}}
        claim = {"type": "persistent-claim", "size": storage, "deleteClaim": False}
        spec = {"replicas": replicas, "roles": roles, "resources": resources, "storage": claim}
        pool = self._resource("KafkaNodePool", name, spec)
        pool["metadata"]["annotations"] = {"strimzi.io/next-node-ids": ids}
        return pool

    def _resource(self, kind: str, name: str, spec: Json, *, of_cluster: bool = True) -> Json:
        metadata: Json = {"name": name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        if of_cluster:
            metadata["labels"] = {_CLUSTER: self.name}
        return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}
