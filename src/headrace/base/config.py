"""Settings: one frozen tree, read once at the edge of a process; nothing below reads the environment.

Precedence: flag, environment (`HEADRACE_<SECTION>_<KEY>`), `headrace.toml`, default. Where each value came from is kept, so that
`headrace config` can say it. The docstring under each field gives its meaning, unit and the reason of the default.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from headrace.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class Kafka:
    """Which Kafka, and how."""

    bootstrap_servers: str = ""
    """Comma-separated `host:port` of another Kafka; empty: the embedded one."""
    auth: str = ""
    """File with a v1 Secret manifest for that Kafka; empty: no authentication."""
    port: int = 9092
    """Port of the embedded Kafka on 127.0.0.1; 0: any free one."""
    java: str = "auto"
    """`auto` (a system Java 17 to 25, else the bundled one), `bundled`, or the path of a Java home."""
    heap_mb: int = 512
    """Heap of the embedded Kafka in MiB: enough for some thousand partitions of moderate traffic."""
    segment_mb: int = 1024
    """Size of a log segment in MiB, Kafka's own default."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """The HTTP side for producers."""

    port: int = 8080
    """Port on `host`; 0: any free one."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    ops_port: int = 9091
    """Port of metrics and health."""
    ops_host: str = "127.0.0.1"
    """Address of metrics and health."""
    produce_timeout_ms: int = 5000
    """How long Kafka may take before the answer is 503."""
    body_limit: int = 1024 * 1024
    """Largest request body in bytes; larger ones get 413. Kafka's own message limit is the same."""
    queue_mb: int = 64
    """Bytes (MiB) that may wait for Kafka before the answer is 429."""
    queue_events: int = 100_000
    """Events that may wait for Kafka before the answer is 429."""
    tls_cert: str = ""
    """PEM file of the certificate chain; with `tls_key` the port speaks TLS."""
    tls_key: str = ""
    """PEM file of the private key."""
    tls_port: int = -1
    """A port of its own for TLS (0: any free one), beside the plain one; -1: the only port speaks TLS."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The store, its REST API, the control loop."""

    port: int = 8090
    """Port of the REST API on 127.0.0.1; 0: any free one."""
    ops_port: int = 9093
    """Port of metrics and health."""
    address_url: str = "http://127.0.0.1:8080"
    """What `status.address.url` starts with; `headrace up` sets it to the receiver's real address."""
    partitions: int = 3
    """Partitions of a new Broker's topic; each is a Python worker of about 36 MB."""
    replication: int = -1
    """Replication factor of new topics; -1: the Kafka's own default."""
    retention: str = "P7D"
    """How long a new Broker's topic keeps events (ISO-8601)."""
    retry: int = 10
    """Retries of a delivery where no spec says otherwise, as Knative's own default configuration gives."""
    backoff_delay: str = "PT0.2S"
    """First unit of the wait between retries (ISO-8601)."""
    backoff_policy: str = "exponential"
    """`exponential` or `linear`."""


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """The Spark pipeline that delivers."""

    ops_port: int = 8081
    """Port of metrics and health."""
    ops_host: str = "127.0.0.1"
    """Address of metrics and health."""
    master: str = "local"
    """`local` (slots computed), `local[N]`, the address of a Spark cluster, or that of a Kubernetes API (`k8s://https://HOST:PORT`)."""
    executors: int = 0
    """Executors in a Kubernetes cluster, each a pod."""
    executor_slots: int = 64
    """Tasks that such an executor runs at once: partitions of topics and catch-up jobs."""
    executor_template: str = ""
    """JSON of a Pod as executors are to be: namespace, account, image, CPU request, memory limit."""
    pod: str = ""
    """Name of the pod that this dispatcher runs in, in the namespace of its executors."""
    pod_ip: str = ""
    """That pod's address, where executors reach it."""
    driver_port: int = 7078
    """Port for executors in pods; 0: any free one."""
    block_port: int = 7079
    """Port from which executors in pods get what tasks need; 0: any free one."""
    api_ca_file: str = ""
    """PEM of the authority behind the Kubernetes API's certificate; empty: that of a pod's account."""
    api_token_file: str = ""
    """File with a bearer token for it; empty: that of a pod's account."""
    batch_interval: str = ""
    """Micro-batches of this interval (`500 ms`) instead of Real-Time Mode."""
    realtime: str = "1 hour"
    """How long a Real-Time Mode batch lasts; between two the stream pauses less than half a second."""
    heap_mb: int = 512
    """Heap of the driver's JVM in MiB."""
    ring_events: int = 8192
    """Events that a partition's ring holds at most."""
    memory_mb: int = 256
    """Bytes (MiB) of events, replies and retries that all partitions together hold at most."""
    in_flight: int = 64
    """Requests in flight per unordered subscription and partition."""
    grace_seconds: float = 5.0
    """How long a planned stop waits for requests in flight."""


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """The operator, and the pods that it makes."""

    kubeconfig: str = ""
    """File that names the cluster; empty: the one that the process runs in."""
    namespace: str = "knative-eventing"
    """Where the installation lives."""
    secrets: bool = False
    """Whether Secrets that a contract names are looked up in the cluster, instead of the standalone store."""
    deploy: bool = True
    """Whether the operator makes receivers and dispatchers; without, it writes their contracts only."""
    image: str = ""
    """Image of the data plane's pods."""
    image_pull_policy: str = "IfNotPresent"
    """When it is pulled."""
    image_pull_secrets: str = ""
    """Comma-separated names of Secrets to pull it with."""
    auth_secret: str = ""
    """Secret of the namespace that opens the installation's Kafka; empty: no authentication."""
    account: str = "headrace-controller"
    """ServiceAccount of the operator: the only one that may change `spec.subscribers`."""
    deployment: str = ""
    """Deployment of the operator, which owns what it makes."""
    data_plane_account: str = "headrace-data-plane"
    """ServiceAccount of the data plane's pods."""
    receivers: int = 1
    """Receiver pods; 0: left to an autoscaler."""
    receiver_cpu: str = "200m"
    """CPU that a receiver asks for."""
    receiver_memory: str = "256Mi"
    """Memory of a receiver."""
    dispatcher_cpu: str = "1"
    """CPU that a dispatcher asks for."""
    dispatcher_memory: str = "2Gi"
    """Memory of a dispatcher: the JVM's heap, and 36 MB for each partition."""
    executors: int = 0
    """Pods with Spark executors of each dispatcher; 0: Spark runs in the dispatcher's own pod."""
    executor_cpu: str = "1"
    """CPU that an executor asks for."""
    executor_memory: str = "2Gi"
    """Memory of an executor: the JVM's heap, and 36 MB for each partition that it serves."""
    executor_slots: int = 64
    """Tasks that an executor runs at once: partitions of topics and catch-up jobs."""
    dispatcher_account: str = "headrace-dispatcher"
    """ServiceAccount of dispatchers that have executors: it may make pods."""
    dispatcher_per_broker: bool = False
    """A dispatcher for each Broker instead of one for all."""
    beside_core: bool = False
    """Whether Knative's own core reconciles Channel, Subscription and EventPolicy."""
    cluster_domain: str = "cluster.local"
    """The cluster's DNS domain."""
    host: str = "0.0.0.0"
    """Address of the webhooks and of the operator's metrics."""
    webhook_port: int = 8443
    """Port of the admission webhooks; 0: any free one."""
    webhook_service: str = "headrace-webhook"
    """Service before the webhooks."""
    webhook_names: str = ""
    """Comma-separated further DNS names for their certificate, where they are reached by another way than that Service."""
    webhook_configuration: str = "headrace"
    """Name of the webhook configurations that get the authority's certificate."""
    certificate_days: float = 90.0
    """How long the webhooks' certificate lasts; renewed after two thirds of it."""
    transport_encryption: str = "disabled"
    """Whether ingresses have addresses with TLS: `disabled`, `permissive` (both) or `strict` (no others)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends: tokens on the way in, and on the way out to subscribers that ask for an audience."""

    authentication: bool = False
    """Knative's feature `authentication-oidc`: every ingress has an audience and asks for a token, Triggers and Subscriptions send theirs."""
    default_authorization_mode: str = "allow-same-namespace"
    """Who may send where no EventPolicy applies: `allow-same-namespace`, `allow-all` or `deny-all`."""
    issuer: str = ""
    """URL of the OpenID Connect issuer whose tokens receivers take; `headrace up`: its controller."""
    issuer_ca_file: str = ""
    """PEM of the authority behind the issuer's certificate; empty: those of the system."""
    issuer_token_file: str = ""
    """File with a bearer token to show to the issuer; empty: none."""
    token_server: str = ""
    """URL of the server that dispatchers ask for tokens (TokenRequest, as the Kubernetes API has it); `headrace up`: its controller."""
    token_server_ca_file: str = ""
    """PEM of the authority behind its certificate; empty: those of the system."""
    token_server_token_file: str = ""
    """File with a bearer token to show to it; empty: none."""


@dataclass(frozen=True, slots=True)
class Logs:
    """What the processes write of themselves."""

    format: str = "text"
    """`text` for people or `json` for machines."""
    level: str = "INFO"
    """`DEBUG`, `INFO`, `WARNING` or `ERROR`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set."""

    instance: str = "headrace"
    """Prefix of the internal topics and transactional ids, so that two Headraces can share a Kafka."""
    data_dir: str = "./.headrace"
    """Where the standalone home keeps Kafka's data, Spark's scratch files, logs and `run.json`."""
    kafka: Kafka = field(default_factory=Kafka)
    receiver: Receiver = field(default_factory=Receiver)
    controller: Controller = field(default_factory=Controller)
    dispatcher: Dispatcher = field(default_factory=Dispatcher)
    identity: Identity = field(default_factory=Identity)
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    logs: Logs = field(default_factory=Logs)


SECTIONS: dict[str, type] = {
    "kafka": Kafka,
    "receiver": Receiver,
    "controller": Controller,
    "dispatcher": Dispatcher,
    "identity": Identity,
    "kubernetes": Kubernetes,
    "logs": Logs,
}


SHORT: Mapping[str, str] = {"kafka.java": "HEADRACE_JAVA"}
"""Second names of environment variables: a Java serves Kafka and Spark alike."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in force: dotted name, value, where it came from (`default`, a file, an environment variable, a flag), meaning."""

    name: str
    value: Any
    origin: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The tree and the origin of each value that is not a default, by dotted name."""

    settings: Settings
    origins: Mapping[str, str]

    def listing(self) -> Iterator[Setting]:
        """Every setting in the order of the tree."""
        for name, kind, key, owner in _leaves():
            holder = self.settings if owner is None else getattr(self.settings, owner)
            yield Setting(name, getattr(holder, key), self.origins.get(name, "default"), _meanings(kind)[key])


def load(config_file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Loaded:
    """Read all sources. `flags` maps dotted names (`receiver.port`) to values; those that are None count as not given.

    `config_file` None: `headrace.toml` of the working folder, if there is one. Raises `UsageError` naming the source and the key for
    an unknown key or a value of the wrong type.
    """
    types = {name: _type(kind, key) for name, kind, key, _ in _leaves()}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}

    def take(name: str, value: Any, origin: str) -> None:
        values[name] = _convert(value, types[name], name, origin)
        origins[name] = origin

    for name, value in _from_file(config_file, types):
        take(name, value, str(config_file or "headrace.toml"))
    for name in types:
        for variable in ("HEADRACE_" + name.replace(".", "_").upper(), SHORT.get(name, "")):
            if environment.get(variable, "") != "":
                take(name, environment[variable], variable)
                break
    for name, value in (flags or {}).items():
        if value is not None:
            take(name, value, "flag --" + name.rpartition(".")[2].replace("_", "-"))
    return Loaded(_tree(values), origins)


def _from_file(path: Path | None, types: Mapping[str, type]) -> Iterator[tuple[str, Any]]:
    source = path or Path("headrace.toml")
    if path is None and not source.is_file():
        return
    try:
        raw = tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", subject=str(source)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not TOML: {error}", subject=str(source)) from None
    for key, value in raw.items():
        inner = value.items() if key in SECTIONS and isinstance(value, dict) else None
        for name, item in [(f"{key}.{k}", v) for k, v in inner] if inner is not None else [(key, value)]:
            if name not in types:
                raise UsageError(f"unknown setting {name!r}", subject=str(source), hint="`headrace config` lists all settings")
            yield name, item


def _leaves() -> Iterator[tuple[str, type, str, str | None]]:
    for spec in fields(Settings):
        if spec.name in SECTIONS:
            for leaf in fields(SECTIONS[spec.name]):
                yield f"{spec.name}.{leaf.name}", SECTIONS[spec.name], leaf.name, spec.name
        else:
            yield spec.name, Settings, spec.name, None


def _type(kind: type, key: str) -> type:
    names = {"int": int, "str": str, "float": float, "bool": bool}
    return names[next(str(spec.type) for spec in fields(kind) if spec.name == key)]


def _convert(value: Any, kind: type, name: str, origin: str) -> Any:
    try:
        if kind is str and isinstance(value, str):
            return value
        if kind is bool:
            if isinstance(value, bool):
                return value
            return {"true": True, "false": False}[str(value).lower()]
        if kind in (int, float) and not isinstance(value, bool):
            return kind(value)
    except (ValueError, KeyError):
        pass
    expected = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(kind, kind.__name__)
    raise UsageError(f"{name} must be {expected}, got {value!r}", subject=origin)


def _tree(values: Mapping[str, Any]) -> Settings:
    settings = Settings()
    for name, value in values.items():
        section, dot, key = name.rpartition(".")
        if dot:
            settings = replace(settings, **{section: replace(getattr(settings, section), **{key: value})})
        else:
            settings = replace(settings, **{key: value})
    return settings


def _meanings(kind: type) -> dict[str, str]:
    """The docstring under each field, read from the source once it is asked for."""
    found: dict[str, str] = {}
    body = next(n for n in ast.parse(inspect.getsource(kind)).body if isinstance(n, ast.ClassDef)).body
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            found[node.target.id] = " ".join(str(text).split())
    return found
