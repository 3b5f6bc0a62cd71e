"""What a receiver is told at its start: one frozen value, nothing else is read from outside."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.contract import Reference
from headrace.kafka.settings import Auth, KafkaSettings

Secrets = Callable[[Reference], Auth]
"""How the `authSecret` of a contract resource becomes an identity at its Kafka; raises `HeadraceError` when it does not."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what clients can make the process hold."""

    body: int = 1024 * 1024
    """Bytes of one request body; larger ones are answered 413."""
    events: int = 100_000
    """Events per Kafka connection that may wait for their delivery report; beyond, the answer is 429."""
    bytes: int = 64 * 1024 * 1024
    """Bytes of bodies per Kafka connection that are being read or wait for their delivery report; beyond, the answer is 429."""
    connections: int = 4096
    """Open connections per port; more wait in the kernel's queue."""
    headers: int = 128 * 1024
    """Bytes of all header lines of a request; beyond, the answer is 431. An event of 64 KiB fits into headers alone."""
    header_seconds: float = 30.0
    """How long a client may take for the header lines, and how long a connection may idle between two requests (HTTP/1.1)."""
    body_seconds: float = 30.0
    """How long a client may take for a body; then the answer is 408."""
    idle_seconds: float = 120.0
    """A connection on which nothing arrives for this long is closed, whatever it speaks."""


@dataclass(frozen=True, slots=True)
class Production:
    """How events are written; the reasons of the defaults are in the decision on the receiver's hot path."""

    timeout_ms: int = 5000
    """How long Kafka may take to confirm an event before the answer is 503."""
    linger_ms: float = 0.5
    """How long an event may wait for others that go to the same partition."""
    in_flight: int = 5
    """Requests in flight per broker; librdkafka's bound for an idempotent producer is 5."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate to show. The files are watched: a new certificate is taken up while the process runs."""

    certificate: Path
    """PEM: the chain, own certificate first."""
    key: Path
    """PEM: the private key, not encrypted."""
    port: int | None = None
    """A port of its own for TLS (0: any free one), beside the plain one; None: the main port speaks TLS."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who signs the tokens that an ingress with an `audience` asks for (OpenID Connect)."""

    url: str
    """The issuer: discovery is at `<url>/.well-known/openid-configuration`, and `iss` of a token must be what that says."""
    ca_file: Path | None = None
    """PEM of the authority that signed the issuer's own certificate; None: those of the system."""
    token_file: Path | None = None
    """A bearer token to show at discovery, as a Kubernetes API server asks for it; read anew each time."""
    leeway_seconds: float = 30.0
    """Clock skew granted to `exp`, `nbf` and `iat`."""
    refresh_seconds: float = 300.0
    """Age at which the signing keys are fetched again. A token with an unknown key fetches them at once, at most each 5 s."""


def unique_name() -> str:
    """A name that no other receiver has: two may run in one container, or after each other under one process id."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class ReceiverConfig:
    """Everything about one receiver process. A port 0 is any free one; the real ones are told once it listens."""

    kafka: KafkaSettings | None
    """The Kafka of this Headrace: heartbeats go there. None: a file contract without heartbeats (under the peer's control plane)."""
    contract: str = "kafka:"
    """`file:PATH`, or `kafka:TOPIC` (empty: the contract topic of the instance)."""
    instance: str = "headrace"
    name: str = field(default_factory=unique_name)
    """Under which the heartbeats appear."""
    host: str = "127.0.0.1"
    port: int = 8080
    share_port: bool = False
    """Let other receiver processes of the same user listen on the same port (the kernel spreads connections)."""
    ops_host: str = "127.0.0.1"
    ops_port: int = 9091
    tls: Tls | None = None
    issuer: Issuer | None = None
    limits: Limits = field(default_factory=Limits)
    production: Production = field(default_factory=Production)
    stop_seconds: float = 20.0
    """How long a stop may take: requests that are not answered by then are cut off."""
    linger_seconds: float = 0.0
    """How long to go on serving, not ready any more, before a stop: load balancers need to notice (Kubernetes: a few seconds)."""
    addresses_file: Path | None = None
    """Where to write `{"url", "tlsUrl", "opsUrl"}` once all of them listen (atomically)."""
