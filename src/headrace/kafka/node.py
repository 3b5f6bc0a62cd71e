"""One KRaft node, described once and rendered to what Kafka reads: `server.properties` and a log4j configuration.

Knows nothing of processes. A cluster is several of these with the same `voters` and cluster id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headrace.kafka.auth import Protocol

CONTROLLER_LISTENER = "CONTROLLER"


class Role(StrEnum):
    """`process.roles`."""

    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that a node listens on: `name` is Kafka's name for it, `properties` are `listener.name.<name>.*` without prefix."""

    name: str
    port: int
    protocol: Protocol = Protocol.PLAINTEXT
    host: str = "127.0.0.1"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """A node of a KRaft cluster on this machine.

    `listeners` are the brokers' (none for a pure controller); `controller_port` is this node's controller listener (None for a pure
    broker); `voters` maps node id -> `host:port` of every controller. `overrides` win over everything else.
    """

    node_id: int
    log_dir: Path
    voters: Mapping[int, str]
    listeners: tuple[Listener, ...] = ()
    controller_port: int | None = None
    host: str = "127.0.0.1"
    inter_broker: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def roles(self) -> tuple[Role, ...]:
        broker = (Role.BROKER,) if self.listeners else ()
        return broker + ((Role.CONTROLLER,) if self.controller_port is not None else ())

    def properties(self) -> dict[str, str]:
        """All properties of the node, in the order in which they are written. May hold secrets of listeners."""
        listeners = list(self.listeners)
        if self.controller_port is not None:
            listeners.append(Listener(CONTROLLER_LISTENER, self.controller_port, host=self.host))
        protocols = {CONTROLLER_LISTENER: Protocol.PLAINTEXT} | {one.name: one.protocol for one in listeners}
        found = {
            "process.roles": ",".join(self.roles),
            "node.id": str(self.node_id),
            "log.dirs": str(self.log_dir),
            "controller.quorum.voters": ",".join(f"{node}@{address}" for node, address in self.voters.items()),
            "controller.listener.names": CONTROLLER_LISTENER,
            "listeners": ",".join(f"{one.name}://{one.address}" for one in listeners),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        }
        if self.listeners:
            found["advertised.listeners"] = ",".join(f"{one.name}://{one.address}" for one in self.listeners)
            found["inter.broker.listener.name"] = self.inter_broker or self.listeners[0].name
        for one in listeners:
            found |= {f"listener.name.{one.name.lower()}.{name}": value for name, value in one.properties.items()}
        return found | dict(self.overrides)


SINGLE_NODE: Mapping[str, str] = {
    # Topics are created on purpose only.
    "auto.create.topics.enable": "false",
    # One node: nothing can be replicated.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Fewer internal partitions: less to open at a start, less to check after a crash.
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    # Groups without members keep their offsets for a year; nobody waits for more members.
    "offsets.retention.minutes": "525600",
    "group.initial.rebalance.delay.ms": "0",
    # After a crash the node's new life waits for the end of the old one's session.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    # Small heap: the cleaner's default buffer alone is 128 MiB; few connections need few threads.
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.network.threads": "3",
    "num.io.threads": "4",
    "background.threads": "2",
    # An idle broker should be idle: no record in the metadata log each half second.
    "metadata.max.idle.interval.ms": "5000",
}


def render_properties(properties: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in properties.items())


def render_log4j(log_path: Path) -> str:
    """A log4j 2 configuration (properties form): all into `log_path`, 3 files of 10 MiB; errors to standard output too, for whoever
    looks after the process.
    """
    return f"""\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log_path}
appender.file.filePattern = {log_path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %m (%c{{1}})%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{ISO8601}} %p %m (%c{{1}})%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
rootLogger.appenderRef.console.ref = console
rootLogger.appenderRef.console.level = error
"""


def _escaped(text: str) -> str:
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    plain = "".join(escapes.get(character, character) for character in text)
    ascii_only = "".join(character if ord(character) < 127 else f"\\u{ord(character):04x}" for character in plain)
    return f"\\{ascii_only}" if ascii_only.startswith(" ") else ascii_only
