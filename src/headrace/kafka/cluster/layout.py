"""Of what a local cluster consists: its nodes, their ports, their security. Chosen once, then kept."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from headrace.base.errors import Terminal, UsageError
from headrace.kafka.auth import Auth, Mechanism, Protocol
from headrace.kafka.embedded import new_cluster_id
from headrace.kafka.ports import free_port

_STEP = 100
_SEPARATE_BROKERS = 10
_SIZES = (1, 3)


class Security(StrEnum):
    """How clients talk to the brokers. Controllers talk plainly: they are on the loopback interface only."""

    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_SSL = "sasl_ssl"

    @property
    def protocol(self) -> Protocol:
        return Protocol(self.value.upper())


class User(StrEnum):
    """The users that a secured cluster has."""

    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """One process; a port that it does not have is 0."""

    id: int
    port: int
    controller_port: int

    @property
    def is_broker(self) -> bool:
        return self.port > 0

    @property
    def is_controller(self) -> bool:
        return self.controller_port > 0

    @property
    def roles(self) -> str:
        words = {"broker": self.is_broker, "controller": self.is_controller}
        return ",".join(word for word, has in words.items() if has)


@dataclass(frozen=True)
class Layout:
    """A whole cluster. `passwords` is empty without SASL; nothing of it appears in `repr`."""

    cluster_id: str
    security: Security
    nodes: tuple[NodeLayout, ...]
    heap_mb: int
    passwords: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Layout({self.cluster_id}, {self.security}, {self.nodes})"

    @classmethod
    def choose(
        cls,
        brokers: int = 3,
        controllers: int = 0,
        security: Security = Security.PLAINTEXT,
        port: int = 9092,
        heap_mb: int = 256,
    ) -> Layout:
        """A new cluster. `controllers` 0: the brokers are the controllers too. `port`: of the first broker, the others' are each 100
        higher; 0: any free ones. Raises `UsageError` for other sizes than 1 and 3.
        """
        if brokers not in _SIZES or controllers not in (0, *_SIZES):
            raise UsageError(
                "a local cluster has 1 or 3 brokers, and 0 (combined), 1 or 3 controllers",
                subject=f"{brokers} and {controllers}",
            )
        ports = [port + number * _STEP if port else free_port() for number in range(brokers)]
        if controllers:
            voters = [NodeLayout(number, 0, free_port()) for number in range(controllers)]
            nodes = [*voters, *(NodeLayout(_SEPARATE_BROKERS + number, one, 0) for number, one in enumerate(ports))]
        else:
            nodes = [NodeLayout(1 + number, one, free_port()) for number, one in enumerate(ports)]
        passwords = {user.value: secrets.token_urlsafe(18) for user in User if security is Security.SASL_SSL}
        return cls(new_cluster_id(), security, tuple(nodes), heap_mb, passwords)

    @classmethod
    def decode(cls, text: str) -> Layout:
        """Read `encode`'s text. Raises `Terminal` when it is none."""
        try:
            raw = json.loads(text)
            nodes = tuple(NodeLayout(**node) for node in raw.pop("nodes"))
            return cls(raw["cluster_id"], Security(raw["security"]), nodes, int(raw["heap_mb"]), dict(raw["passwords"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Terminal("not a description of a local cluster", subject="cluster.json") from error

    def encode(self) -> str:
        facts: dict[str, Any] = {
            "cluster_id": self.cluster_id,
            "security": self.security.value,
            "heap_mb": self.heap_mb,
            "nodes": [asdict(node) for node in self.nodes],
            "passwords": dict(self.passwords),
        }
        return json.dumps(facts, indent=2) + "\n"

    @property
    def brokers(self) -> tuple[NodeLayout, ...]:
        return tuple(node for node in self.nodes if node.is_broker)

    @property
    def controllers(self) -> tuple[NodeLayout, ...]:
        return tuple(node for node in self.nodes if node.is_controller)

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.brokers)

    def node(self, number: int) -> NodeLayout:
        """The node with that id. Raises `UsageError` naming those there are."""
        for node in self.nodes:
            if node.id == number:
                return node
        known = ", ".join(f"{node.id} ({node.roles})" for node in self.nodes)
        raise UsageError("no such node", subject=f"node {number}", hint=f"The cluster has {known}")

    def auth(self, user: User, ca_crt: str = "", user_crt: str = "", user_key: str = "") -> Auth:
        """How `user` logs in; the PEM texts are what TLS needs."""
        match self.security:
            case Security.PLAINTEXT:
                return Auth.none()
            case Security.SSL:
                return Auth(protocol=Protocol.SSL, ca_crt=ca_crt, user_crt=user_crt, user_key=user_key)
            case Security.SASL_SSL:
                password = self.passwords[user]
                return Auth(
                    protocol=Protocol.SASL_SSL,
                    mechanism=Mechanism.SCRAM_SHA_512,
                    user=user.value,
                    password=password,
                    ca_crt=ca_crt,
                )
