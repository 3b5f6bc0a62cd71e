"""The contract: all that the data plane needs to know, and nothing else.

The shape is the peer's `contract.proto` (knative-extensions/eventing-kafka-broker) in its protojson form: camelCase names, enum
names, uint64 as strings, zero values omitted. Our additions are plain JSON objects under `headrace`.

Reading keeps what it does not know: `unknown` holds the unknown fields of a message, so that republishing a contract loses
nothing. What the data plane does not support yet closes its ingress or egress there; it is never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from headrace.base.errors import Terminal

Json = dict[str, Any]


class DeliveryOrder(StrEnum):
    """How the events of one partition may overlap at one subscriber. `KEY` is ours (`headrace.order` of an egress)."""

    UNORDERED = "UNORDERED"
    ORDERED = "ORDERED"
    KEY = "KEY"


class ContentMode(StrEnum):
    """How the receiver writes events to Kafka."""

    BINARY = "BINARY"
    STRUCTURED = "STRUCTURED"


class BackoffPolicy(StrEnum):
    """How the wait between attempts grows."""

    EXPONENTIAL = "Exponential"
    LINEAR = "Linear"


class KeyType(StrEnum):
    """How a record key becomes text."""

    STRING = "String"
    INTEGER = "Integer"
    DOUBLE = "Double"
    BYTE_ARRAY = "ByteArray"


@dataclass(frozen=True, slots=True)
class Reference:
    """The resource that a part of the contract stands for."""

    uuid: str = ""
    namespace: str = ""
    name: str = ""
    version: str = ""
    kind: str = ""
    group_version: str = ""
    unknown: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EgressConfig:
    """Delivery of one egress: times in milliseconds, 0 means not set.

    `headrace`: `retryAfterMax` (milliseconds; absent = `Retry-After` ignored).
    """

    dead_letter: str = ""
    dead_letter_ca_certs: str = field(default="", metadata={"name": "deadLetterCACerts"})
    dead_letter_audience: str = ""
    format: str = ""
    retry: int = 0
    backoff_policy: BackoffPolicy = BackoffPolicy.EXPONENTIAL
    backoff_delay: int = field(default=0, metadata={"uint64": True})
    timeout: int = field(default=0, metadata={"uint64": True})
    headrace: Json = field(default_factory=dict)
    unknown: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Egress:
    """One subscription of a topic: where its events go, which ones, and how.

    At most one of `reply_url`, `reply_to_original_topic`, `discard_reply` is set. `dialected_filter` holds the raw JSON of each
    dialect (`core.filters` compiles it). `headrace`: `order` (`KEY`), `initialised` (true once the control plane wrote initial
    positions), `paused`, `maxRate` (events/s), `maxInFlight`, `onUndeliverable` (`park`),
    `hopLimit` (replies may come back so often), `until` (partition -> first offset that is not delivered any more).
    """

    consumer_group: str = ""
    destination: str = ""
    destination_ca_certs: str = field(default="", metadata={"name": "destinationCACerts"})
    destination_audience: str = ""
    reply_url: str = ""
    reply_to_original_topic: bool = field(default=False, metadata={"empty": True})
    discard_reply: bool = field(default=False, metadata={"empty": True})
    reply_url_ca_certs: str = field(default="", metadata={"name": "replyUrlCACerts"})
    reply_url_audience: str = ""
    filter: Json = field(default_factory=dict)
    uid: str = ""
    egress_config: EgressConfig = field(default_factory=EgressConfig)
    delivery_order: DeliveryOrder = DeliveryOrder.UNORDERED
    key_type: KeyType = KeyType.STRING
    reference: Reference = field(default_factory=Reference)
    dialected_filter: tuple[Json, ...] = ()
    v_replicas: int = 0
    feature_flags: Json = field(default_factory=dict)
    oidc_service_account_name: str = ""
    headrace: Json = field(default_factory=dict)
    unknown: Json = field(default_factory=dict)

    @property
    def order(self) -> DeliveryOrder:
        """The order mode in force: ours where it is set, else the peer's field."""
        return DeliveryOrder(self.headrace.get("order", self.delivery_order))


@dataclass(frozen=True, slots=True)
class Ingress:
    """Where events come in: a path (`/ns/name`) or, for channels, also a host name without port."""

    content_mode: ContentMode = ContentMode.BINARY
    path: str = ""
    host: str = ""
    audience: str = ""
    event_policies: tuple[Json, ...] = ()
    headrace: Json = field(default_factory=dict)
    unknown: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resource:
    """One ingress (with exactly one topic) or a set of egresses of one topic, and the Kafka that holds it.

    `auth_secret` is a `Reference` to a Secret; `multi_auth_secret` is kept as raw JSON. Neither set means no authentication.
    """

    uid: str = ""
    topics: tuple[str, ...] = ()
    bootstrap_servers: str = ""
    ingress: Ingress | None = None
    egress_config: EgressConfig | None = None
    egresses: tuple[Egress, ...] = ()
    absent_auth: bool = field(default=False, metadata={"empty": True})
    auth_secret: Reference | None = None
    multi_auth_secret: Json = field(default_factory=dict)
    cloud_event_overrides: Json = field(default_factory=dict)
    reference: Reference = field(default_factory=Reference)
    feature_flags: Json = field(default_factory=dict)
    headrace: Json = field(default_factory=dict)
    unknown: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contract:
    """A whole contract, as one file holds it. `generation` is a uint64; `trust_bundles` are PEM texts."""

    generation: int = field(default=0, metadata={"uint64": True})
    resources: tuple[Resource, ...] = ()
    trust_bundles: tuple[str, ...] = ()
    unknown: Json = field(default_factory=dict)


_NESTED: dict[tuple[type, str], type] = {
    (Egress, "egress_config"): EgressConfig,
    (Egress, "reference"): Reference,
    (Resource, "ingress"): Ingress,
    (Resource, "egress_config"): EgressConfig,
    (Resource, "egresses"): Egress,
    (Resource, "auth_secret"): Reference,
    (Resource, "reference"): Reference,
    (Contract, "resources"): Resource,
}
_ENUMS: dict[str, type[StrEnum]] = {
    "backoff_policy": BackoffPolicy,
    "delivery_order": DeliveryOrder,
    "key_type": KeyType,
    "content_mode": ContentMode,
}
_ENUM_NUMBERS: dict[type[StrEnum], tuple[StrEnum, ...]] = {
    BackoffPolicy: (BackoffPolicy.EXPONENTIAL, BackoffPolicy.LINEAR),
    DeliveryOrder: (DeliveryOrder.UNORDERED, DeliveryOrder.ORDERED),
    KeyType: (KeyType.STRING, KeyType.INTEGER, KeyType.DOUBLE, KeyType.BYTE_ARRAY),
    ContentMode: (ContentMode.BINARY, ContentMode.STRUCTURED),
}
M = TypeVar("M")


def _json_name(spec: Any) -> str:
    if "name" in spec.metadata:
        return str(spec.metadata["name"])
    head, *rest = spec.name.split("_")
    return str(head + "".join(part.capitalize() for part in rest))


_SPECS: dict[Any, dict[str, Any]] = {
    kind: {_json_name(spec): spec for spec in fields(kind) if spec.name != "unknown"}
    for kind in (Reference, EgressConfig, Egress, Ingress, Resource, Contract)
}


def parse_contract(text: str | bytes) -> Contract:
    """The contract in `text` (protojson). An empty text is an empty contract: everything drains.

    Raises `Terminal` when it is not JSON or a known field has a wrong type; the message names the field.
    """
    if not text.strip():
        return Contract()
    return _read(Contract, _load(text), "contract")


def parse_resource(text: str | bytes) -> Resource:
    """One contract Resource, as a record of the contract topic holds it. Errors as `parse_contract`."""
    return _read(Resource, _load(text), "resource")


def to_json(message: Any) -> Json:
    """The protojson object of any message of this module, zero values left out, unknown fields kept."""
    out: Json = dict(message.unknown)
    for name, spec in _SPECS[type(message)].items():
        value = getattr(message, spec.name)
        if _is_zero(value):
            continue
        out[name] = _write(spec, value)
    if isinstance(message, Resource) and message.egress_config is not None:
        # Left out, it would mean the resource's.
        for egress in out.get("egresses", ()):
            egress.setdefault("egressConfig", {})
    return out


def dump(message: Any) -> bytes:
    """`to_json` as canonical bytes: equal messages give equal bytes."""
    return json.dumps(to_json(message), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def unknown_fields(message: Any, path: str = "") -> Iterator[str]:
    """The paths of all unknown fields within `message`, for one line in the log."""
    for name in message.unknown:
        yield f"{path}{name}"
    for name, spec in _SPECS[type(message)].items():
        value = getattr(message, spec.name)
        for index, item in enumerate(value if isinstance(value, tuple) else (value,)):
            if is_dataclass(item):
                place = f"{path}{name}[{index}]." if isinstance(value, tuple) else f"{path}{name}."
                yield from unknown_fields(item, place)


def _load(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Terminal(
            f"the contract is not JSON: {error}",
            hint="The binary protobuf encoding is not read: set the controller's contract format to json",
        ) from None


def _is_zero(value: Any) -> bool:
    return (
        value is None
        or value in ("", 0, False)
        or (isinstance(value, (dict, tuple)) and not value)
        or (isinstance(value, StrEnum) and value == _ENUM_NUMBERS[type(value)][0])
        or value in (Reference(), EgressConfig())
    )


def _write(spec: Any, value: Any) -> Any:
    if spec.metadata.get("empty"):
        return {}
    if spec.metadata.get("uint64"):
        return str(value)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [to_json(item) if is_dataclass(item) else item for item in value]
    return to_json(value) if is_dataclass(value) else value


def _read(kind: type[M], raw: Any, path: str) -> M:
    if not isinstance(raw, Mapping):
        raise Terminal("expected an object", subject=path)
    specs = _SPECS[kind]
    values: dict[str, Any] = {}
    unknown: Json = {}
    for name, value in raw.items():
        spec = specs.get(name)
        if spec is None:
            unknown[name] = value
        elif value is not None:
            values[spec.name] = _read_field(kind, spec, value, f"{path}.{name}")
    if kind is Resource and values.get("egress_config") is not None:
        values["egresses"] = _inheriting(raw.get("egresses") or (), values.get("egresses", ()), values["egress_config"])
    build: Callable[..., M] = kind
    return build(**values, unknown=unknown)


def _inheriting(raw: Sequence[Json], egresses: tuple[Egress, ...], config: EgressConfig) -> tuple[Egress, ...]:
    """An egress that has no delivery options of its own has those of its resource, as the peer's data plane takes it."""
    pairs = zip(raw, egresses, strict=True)
    return tuple(
        egress if one.get("egressConfig") is not None else replace(egress, egress_config=config) for one, egress in pairs
    )


def _read_field(kind: type, spec: Any, value: Any, path: str) -> Any:
    if spec.metadata.get("empty"):
        return True
    enum = _ENUMS.get(spec.name)
    if enum is not None:
        return _read_enum(enum, value, path)
    nested = _NESTED.get((kind, spec.name))
    if str(spec.type).startswith("tuple"):
        item = _expect(list, value, path)
        if nested is not None:
            return tuple(_read(nested, one, f"{path}[{index}]") for index, one in enumerate(item))
        return tuple(item)
    if nested is not None:
        return _read(nested, value, path)
    return _scalar(str(spec.type))(value, path)


def _read_enum(enum: type[StrEnum], value: Any, path: str) -> StrEnum:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_ENUM_NUMBERS[enum]):
        return _ENUM_NUMBERS[enum][value]
    try:
        return enum(value)
    except ValueError:
        raise Terminal(f"unknown value {value!r}, expected one of {', '.join(enum)}", subject=path) from None


def _scalar(kind: str) -> Callable[[Any, str], Any]:
    if kind == "int":
        return _read_int
    return lambda value, path: _expect(dict if kind == "Json" else str, value, path)


def _read_int(value: Any, path: str) -> int:
    try:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError
        number = int(value)
    except (TypeError, ValueError):
        raise Terminal(f"expected a whole number, got {value!r}", subject=path) from None
    if number < 0:
        raise Terminal(f"expected a number of at least 0, got {number}", subject=path)
    return number


def _expect(kind: type, value: Any, path: str) -> Any:
    if not isinstance(value, kind):
        names: dict[type, str] = {dict: "an object", list: "a list", str: "a string"}
        raise Terminal(f"expected {names[kind]}, got {value!r}", subject=path)
    return value
