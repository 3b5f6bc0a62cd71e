"""What `broker/NAME` and `channel/NAME` stand for: the address to send to, the topic to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.base.errors import Terminal, UsageError
from headrace.cli.settings import connect, kafka_settings, loaded, running

if TYPE_CHECKING:
    from headrace.kafka.settings import KafkaSettings

Json = dict[str, Any]
_HOLDERS = {"broker", "brokers", "channel", "channels", "ch", "kafkachannel", "kafkachannels", "kc"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where to POST events to, and for whom the token has to be that is asked for there (empty: none is)."""

    url: str
    audience: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and the Kafka that has it."""

    name: str
    kafka: KafkaSettings


def address_of(target: str, namespace: str, server: str | None, data_dir: str | None) -> Address:
    """Where a target takes events. Raises `Terminal` when the object has no address yet."""
    if target.startswith(("http://", "https://")):
        return Address(target)
    obj = _object(target, namespace, server, data_dir)
    address = (obj.get("status") or {}).get("address") or {}
    if not address.get("url"):
        raise Terminal("has no address yet", subject=target, hint=f"Wait for it: `headrace get {target} --wait Ready`")
    return Address(str(address["url"]), str(address.get("audience") or ""))


def topic_of(
    target: str, namespace: str, server: str | None, data_dir: str | None, bootstrap_servers: str | None, kafka_auth: str | None
) -> Topic:
    """The topic of a Broker or channel. Without `bootstrap_servers`: the Kafka that the object names, else that of `headrace up`."""
    obj = _object(target, namespace, server, data_dir)
    facts = (obj.get("status") or {}).get("annotations") or {}
    name = facts.get("default.topic")
    if not name:
        raise Terminal("has no topic yet", subject=target, hint=f"Wait for it: `headrace get {target} --wait Ready`")
    settings = loaded(None, {"kafka.bootstrap_servers": bootstrap_servers, "kafka.auth": kafka_auth}).settings
    if not settings.kafka.bootstrap_servers:
        where = facts.get("bootstrap.servers") or running(data_dir).address("kafka")
        settings = loaded(None, {"kafka.bootstrap_servers": where, "kafka.auth": kafka_auth}).settings
    return Topic(str(name), kafka_settings(settings))


def _object(target: str, namespace: str, server: str | None, data_dir: str | None) -> Json:
    from headrace.cli.selection import select

    kind, slash, name = target.partition("/")
    if not slash or not name or kind.lower() not in _HOLDERS:
        raise UsageError("expected broker/NAME, channel/NAME or kafkachannel/NAME", subject=repr(target))
    with connect(server, data_dir) as client:
        found = select(client, [target], namespace)[0].fetch(client)
        if found["kind"] == "Channel" and not (found.get("status") or {}).get("annotations", {}).get("default.topic"):
            # A Channel is backed by a KafkaChannel of its name, which has the topic.
            backing = select(client, [f"kafkachannel/{name}"], namespace)[0].fetch(client)
            return {
                **found,
                "status": {**(backing.get("status") or {}), **(found.get("status") or {}), "annotations": _facts(backing)},
            }
        return found


def _facts(obj: Json) -> Json:
    return dict((obj.get("status") or {}).get("annotations") or {})
