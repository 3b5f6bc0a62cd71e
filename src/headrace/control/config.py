"""The Kafka side of a Broker or KafkaChannel: connection and topic, from its ConfigMap or the home's defaults.

Keys (the peer's `kafka-broker-config`): `bootstrap.servers`, `auth.secret.ref.name`, `auth.secret.ref.namespace`,
`default.topic.partitions`, `default.topic.replication.factor`, `default.topic.config.<any topic setting>`. What a ConfigMap leaves
out comes from the home. Other keys are ignored, as `_example` in Knative's own.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import Terminal
from headrace.control.conditions import Verdict, false, unknown
from headrace.control.model import KafkaRef, ObjectKey
from headrace.control.settings import Settings
from headrace.control.world import World
from headrace.core.reasons import Reason
from headrace.kafka.auth import Auth

BOOTSTRAP = "bootstrap.servers"
SECRET_NAME = "auth.secret.ref.name"
SECRET_NAMESPACE = "auth.secret.ref.namespace"
PARTITIONS = "default.topic.partitions"
REPLICATION = "default.topic.replication.factor"
TOPIC_CONFIG = "default.topic.config."
_MOST_PARTITIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How a topic is created. `replication` -1: the Kafka's default. `config`: sorted pairs."""

    kafka: KafkaRef
    partitions: int
    replication: int
    config: tuple[tuple[str, str], ...] = ()


class ConfigError(Exception):
    """A ConfigMap that can't be used; carries the verdict."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


def read_config(world: World, key: ObjectKey | None, *, required: bool) -> TopicSettings:
    """The settings that the ConfigMap at `key` asks for, completed by the home's. Raises `ConfigError`.

    Without a key, or with one that is not there and not `required`, the home's own.
    """
    data: Mapping[str, str] = {}
    if key is not None:
        raw = world.look(key)
        if raw is not None:
            data = _texts(key, raw.get("data") or {})
        elif not world.is_looked_up(key):
            raise ConfigError(unknown(Reason.CONFIG_NOT_LOOKED_UP, f"{key} was not looked up yet"))
        elif required:
            raise ConfigError(false(Reason.CONFIG_MAP_NOT_FOUND, f"{key} does not exist"))
    return _settings(data, key, world.settings)


def check_secret(world: World, kafka: KafkaRef) -> Verdict | None:
    """Why the Secret of a connection can't be used, or None."""
    if kafka.secret is None:
        return None
    raw = world.look(kafka.secret)
    if raw is not None:
        return _usable(kafka.secret, raw)
    if world.is_looked_up(kafka.secret):
        return false(Reason.SECRET_NOT_FOUND, f"{kafka.secret}, which the Kafka configuration names, does not exist")
    return unknown(Reason.SECRET_NOT_LOOKED_UP, f"{kafka.secret} was not looked up yet")


def _usable(key: ObjectKey, raw: Mapping[str, Any]) -> Verdict | None:
    try:
        data = {name: base64.b64decode(value) for name, value in (raw.get("data") or {}).items()}
        Auth.from_secret(data, subject=str(key))
    except (Terminal, ValueError, TypeError) as error:
        return false(Reason.SECRET_INVALID, str(error) if isinstance(error, Terminal) else f"{key}: expected base64 under data")
    return None


def _texts(key: ObjectKey, data: object) -> Mapping[str, str]:
    if not isinstance(data, Mapping) or not all(isinstance(value, str) for value in data.values()):
        raise ConfigError(false(Reason.CONFIG_INVALID, f"{key}: expected strings under data"))
    return data


def _settings(data: Mapping[str, str], key: ObjectKey | None, home: Settings) -> TopicSettings:
    config = {name.removeprefix(TOPIC_CONFIG): value for name, value in data.items() if name.startswith(TOPIC_CONFIG)}
    config.setdefault("retention.ms", str(home.retention_ms))
    return TopicSettings(
        kafka=_kafka(data, key, home),
        partitions=_number(data, key, PARTITIONS, home.partitions, _MOST_PARTITIONS),
        replication=_number(data, key, REPLICATION, home.replication, 32_767),
        config=tuple(sorted(config.items())),
    )


def _kafka(data: Mapping[str, str], key: ObjectKey | None, home: Settings) -> KafkaRef:
    bootstrap = ",".join(part.strip() for part in data.get(BOOTSTRAP, "").split(",") if part.strip())
    name = data.get(SECRET_NAME, "").strip()
    if not bootstrap:
        if home.kafka is None:
            where = f"{key} has no" if key is not None else "no configuration has a"
            raise ConfigError(
                false(Reason.BOOTSTRAP_SERVERS_MISSING, f"{where} key {BOOTSTRAP}, and the installation has no default")
            )
        if not name:
            return home.kafka
        bootstrap = home.kafka.bootstrap
    for server in bootstrap.split(","):
        host, colon, port = server.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise ConfigError(false(Reason.CONFIG_INVALID, f"{key}: {BOOTSTRAP}: expected host:port, got {server}"))
    if not name:
        return KafkaRef(bootstrap)
    namespace = data.get(SECRET_NAMESPACE, "").strip() or (key.namespace if key is not None else home.system_namespace)
    return KafkaRef(bootstrap, ObjectKey("", "Secret", namespace, name))


def _number(data: Mapping[str, str], key: ObjectKey | None, name: str, otherwise: int, most: int) -> int:
    text = data.get(name, "").strip()
    if not text:
        return otherwise
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= most:
        raise ConfigError(false(Reason.CONFIG_INVALID, f"{key}: {name}: expected a whole number from 1 to {most}, got {text}"))
    return int(text)
