"""What a dispatcher is started with. Read once at the edge (the command, a home); nothing below reads the environment."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.base.classarchive import ClassArchive
from headrace.base.errors import Terminal, UsageError
from headrace.core.contract import Reference
from headrace.dispatcher.spec import Limits
from headrace.http.tokens import TokenServer
from headrace.kafka.settings import Auth, KafkaSettings
from headrace.spark.pods import ExecutorPods

MEBI = 1024 * 1024
_MEMORY = re.compile(r"(\d+)([kmgKMG])")
_UNITS = {"k": 1024, "m": MEBI, "g": 1024 * MEBI}

Secrets = Callable[[Reference], Auth]
"""Gives the identity in a Secret that the contract names; raises `Terminal` when there is none."""


def no_secrets(reference: Reference) -> Auth:
    """For homes that hold no Secrets."""
    raise Terminal(
        "this dispatcher can't look Secrets up",
        subject=f"secret {reference.namespace}/{reference.name}",
        hint="Give the identity with --kafka-auth",
    )


@dataclass(frozen=True, slots=True)
class ContractSource:
    """Where the contract is: a compacted topic of the dispatcher's Kafka, or a file that is watched and republished to that topic."""

    topic: str
    file: Path | None = None

    @classmethod
    def parse(cls, text: str, default_topic: str) -> ContractSource:
        """`kafka:TOPIC` or `file:PATH`, as `--contract` takes it; an empty text is the default topic."""
        kind, colon, rest = text.partition(":")
        if not text:
            return cls(default_topic)
        if colon and rest and kind == "kafka":
            return cls(rest)
        if colon and rest and kind == "file":
            return cls(default_topic, Path(rest))
        raise UsageError("not a contract source", subject=f"--contract {text!r}", hint="Use kafka:TOPIC or file:PATH")


@dataclass(frozen=True, slots=True)
class Only:
    """One `--only KIND/NAMESPACE/NAME`: topics whose Broker or channel (or an egress of them) is named so are served; `*` is any."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Only:
        """Raises `UsageError` when the form is another."""
        parts = text.split("/")
        if len(parts) != 3 or not all(parts):
            raise UsageError(
                "not KIND/NAMESPACE/NAME", subject=f"--only {text!r}", hint="For example KafkaChannel/default/orders"
            )
        return cls(*parts)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of the driver, in seconds.

    `batch`: length of a Real-Time Mode batch; shortly before its end the query is restarted as planned, so that each run is one
    batch. `silence`: without a heartbeat for so long a worker counts as dead. `patience`: what its first one may take. `grace`:
    for requests in flight at a planned stop. `abort`: a new run waits so long for goodbyes of workers whose query failed.
    `backoff_max`: between restarts of a query that keeps failing. `describe`: between looks at a topic's partitions and id.
    `stop`: for the whole of stopping. `job`: how long the workers of a catch-up job may send. `bulk`: a topic stays in bulk
    gear at least so long.
    """

    batch: int = 3600
    silence: float = 5.0
    patience: float = 120.0
    grace: float = 1.0
    abort: float = 2.0
    backoff_max: float = 30.0
    describe: float = 5.0
    stop: float = 20.0
    job: float = 8.0
    bulk: float = 30.0


@dataclass(frozen=True, slots=True)
class DispatcherConfig:
    """All settings of a dispatcher.

    `kafka`: where the internal topics are; topics of the contract with the same bootstrap servers use its identity, others
    their Secret's. `work`: folder for Spark's own files, removed at the end. `logs`: folder that gets `spark.log`. `java_home`:
    folder whose `bin/java` starts Spark (a shim where needed). `connector`: jars of Spark's Kafka source. `python`: of the
    workers; on a cluster a Python of this minor version on its hosts. `pods`: the executors of a Kubernetes cluster.
    `classes`: the archive of Spark's classes.
    `batch_interval`: seconds between micro-batches instead of Real-Time Mode; 0 is Real-Time Mode. `ops_port`: of `/metrics`,
    `/healthz`, `/readyz`. `budget`: bytes of payload that all workers together may hold. `job_slots`: slots kept free for
    catch-up jobs. `real_time_rate`: events per second of one topic that real-time gear is good for, to tell what is a backlog.
    `mirror_rate`: group commits per second. `identity` tells drivers of one instance apart. `tokens`: where tokens for
    subscribers that ask for an audience are had; None: nowhere.
    """

    kafka: KafkaSettings
    contract: ContractSource
    work: Path
    logs: Path
    java_home: Path
    connector: tuple[Path, ...]
    instance: str = "headrace"
    only: tuple[Only, ...] = ()
    master: str = "local[256]"
    memory: str = "512m"
    python: str = sys.executable
    pods: ExecutorPods | None = None
    classes: ClassArchive | None = None
    batch_interval: float = 0.0
    ops_host: str = "127.0.0.1"
    ops_port: int = 8081
    secrets: Secrets = no_secrets
    limits: Limits = field(default_factory=Limits)
    budget: int = 512 * MEBI
    job_slots: int = 8
    real_time_rate: float = 4_000.0
    mirror_rate: float = 200.0
    timing: Timing = field(default_factory=Timing)
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    offset_extensions: bool = True
    hop_limit: int = 0
    tokens: TokenServer | None = None
    log_json: bool = False
    log_level: str = "INFO"
    spark_conf: tuple[tuple[str, str], ...] = ()

    @property
    def heap_bytes(self) -> int:
        """The JVM's heap, from `memory` (a number with k, m or g). Raises `UsageError` when it is written otherwise."""
        match = _MEMORY.fullmatch(self.memory)
        if match is None:
            raise UsageError("not a size", subject=f"driver memory {self.memory!r}", hint="Write it like 512m or 2g")
        return int(match[1]) * _UNITS[match[2].lower()]
