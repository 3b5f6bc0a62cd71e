"""Names of topics, groups and transactional ids (the peer's templates for what users see; our own for what is internal)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.base.errors import UsageError

MAX_TOPIC_NAME = 249
_INSTANCE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


def broker_topic(namespace: str, name: str) -> str:
    """Topic of a Broker."""
    return f"knative-broker-{namespace}-{name}"


def channel_topic(namespace: str, name: str) -> str:
    """Topic of a KafkaChannel."""
    return f"knative-messaging-kafka.{namespace}.{name}"


def trigger_group(namespace: str, name: str) -> str:
    """Consumer group of a Trigger."""
    return f"knative-trigger-{namespace}-{name}"


def subscription_group(namespace: str, channel: str, uid: str) -> str:
    """Consumer group of a Subscription; `uid` is the Subscription's."""
    return f"kafka.{namespace}.{channel}.{uid}"


def with_uid(name: str, uid: str) -> str:
    """`name` for the later of two objects whose names collide: the first 8 characters of its uid are appended."""
    return f"{name[: MAX_TOPIC_NAME - 9]}-{uid[:8]}"


@dataclass(frozen=True, slots=True)
class Internal:
    """The topics and transactional ids of one Headrace; `instance` keeps two on one Kafka apart."""

    instance: str = "headrace"

    def __post_init__(self) -> None:
        if not _INSTANCE.fullmatch(self.instance):
            raise UsageError(
                "not a usable instance name",
                subject=f"--instance {self.instance!r}",
                hint="Use 1 to 63 lower-case letters, digits, '-' or '.', starting and ending with a letter or digit",
            )

    @property
    def resources(self) -> str:
        """Compacted: `group/kind/namespace/name` -> object."""
        return f"{self.instance}.resources"

    @property
    def contract(self) -> str:
        """Compacted: see `core.contractlog`."""
        return f"{self.instance}.contract"

    @property
    def progress(self) -> str:
        """Compacted: `lane uid/partition` -> progress (`core.progress`)."""
        return f"{self.instance}.progress"

    @property
    def dataplane(self) -> str:
        """Kept for an hour: instance of a process -> heartbeat (`core.heartbeat`)."""
        return f"{self.instance}.dataplane"

    @property
    def undeliverable(self) -> str:
        """Events that nobody took, of subscriptions that ask to keep them: a record each, as it would be a dead letter."""
        return f"{self.instance}.undeliverable"

    def transactional(self, what: str) -> str:
        """The transactional id under which one writer fences the older ones."""
        return f"{self.instance}.{what}"
