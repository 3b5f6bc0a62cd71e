"""Annotations that change how an object acts: their names, values and meaning.

Ours are under `headrace.dev/`; one of those that does not exist, or does not belong on the kind, is refused: a typing mistake must
not pass as a setting that has no effect.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from headrace.core.contract import DeliveryOrder
from headrace.core.resources.duration import parse_duration
from headrace.core.resources.invalid import FieldError, at, invalid_value
from headrace.core.resources.timestamps import parse_time

OURS = "headrace.dev/"
BROKER_CLASS = "eventing.knative.dev/broker.class"
EXTERNAL_TOPIC = "kafka.eventing.knative.dev/external.topic"
DELIVERY_ORDER = "kafka.eventing.knative.dev/delivery.order"
DEPENDENCY = "knative.dev/dependency"
INJECTION = "eventing.knative.dev/injection"
SUBSCRIBABLE = "messaging.knative.dev/subscribable"
SCOPE = "eventing.knative.dev/scope"
INITIAL_OFFSET = OURS + "initial-offset"
KEEP_POSITION = OURS + "keep-position"
MAX_RATE = OURS + "max-rate"
MAX_IN_FLIGHT = OURS + "max-in-flight"
ON_UNDELIVERABLE = OURS + "on-undeliverable"
PAUSED = OURS + "paused"
UNTIL = OURS + "until"
HOP_LIMIT = OURS + "hop-limit"

_OFFSETS = re.compile(r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*", re.ASCII)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_ORDERS = {"ordered": DeliveryOrder.ORDERED, "unordered": DeliveryOrder.UNORDERED, "key": DeliveryOrder.KEY}


class From(StrEnum):
    """Where a new subscription starts."""

    LATEST = "latest"
    EARLIEST = "earliest"
    TIME = "time"
    AGO = "ago"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class InitialOffset:
    """`headrace.dev/initial-offset`.

    `ms`: of `TIME`, Unix time; of `AGO`, how long before the object was made. Milliseconds. `offsets`: of `OFFSETS`, (partition, offset).
    """

    start: From = From.LATEST
    ms: int = 0
    offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LaneOptions:
    """What the annotations of a Trigger or Subscription ask of its delivery. `None`: not said."""

    order: DeliveryOrder | None = None
    initial_offset: InitialOffset = InitialOffset()
    keep_position: bool = False
    max_rate: float | None = None
    max_in_flight: int | None = None
    park_undeliverable: bool = False
    paused: bool = False
    until: tuple[tuple[int, int], ...] = ()
    hop_limit: int | None = None


def parse_order(text: str) -> DeliveryOrder:
    """The value of `kafka.eventing.knative.dev/delivery.order`."""
    if text not in _ORDERS:
        raise ValueError(f"expected one of {', '.join(_ORDERS)}")
    return _ORDERS[text]


def parse_initial_offset(text: str) -> InitialOffset:
    """The value of `headrace.dev/initial-offset`: latest, earliest, an RFC 3339 time, an ISO 8601 duration back, or offsets."""
    if text in (From.LATEST, From.EARLIEST):
        return InitialOffset(From(text))
    if text.startswith("P"):
        return InitialOffset(From.AGO, parse_duration(text))
    if _OFFSETS.fullmatch(text):
        return InitialOffset(From.OFFSETS, offsets=parse_offsets(text))
    try:
        return InitialOffset(From.TIME, parse_time(text))
    except ValueError as error:
        raise ValueError(f"expected latest, earliest, a time, a duration back or offsets ({error})") from None


def parse_offsets(text: str) -> tuple[tuple[int, int], ...]:
    """Offsets per partition, `0:120,1:98`: sorted (partition, offset)."""
    if not _OFFSETS.fullmatch(text):
        raise ValueError("expected PARTITION:OFFSET, with commas between them, such as 0:120,1:98")
    pairs = [pair.partition(":") for pair in text.split(",")]
    offsets = {int(partition): int(offset) for partition, _, offset in pairs}
    if len(offsets) < len(pairs):
        raise ValueError("expected each partition once")
    return tuple(sorted(offsets.items()))


def parse_bool(text: str) -> bool:
    """`true` or `false`, in quotes as annotations are."""
    if text not in ("true", "false"):
        raise ValueError('expected "true" or "false"')
    return text == "true"


def parse_count(text: str) -> int:
    """A whole number from 1 to a million."""
    if not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) or not 1 <= int(text) <= 1_000_000:
        raise ValueError("expected a whole number from 1 to 1000000")
    return int(text)


def parse_rate(text: str) -> float:
    """Events per second, more than 0; fractions are allowed (`0.1` is one in ten seconds)."""
    try:
        rate = Decimal(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII) else Decimal(0)
    except InvalidOperation:
        rate = Decimal(0)
    if not Decimal("0.000001") <= rate <= 10_000_000:
        raise ValueError("expected a number of events per second, from 0.000001 to 10000000")
    return float(rate)


def parse_undeliverable(text: str) -> bool:
    """`drop` or `park`; true for park."""
    if text not in ("drop", "park"):
        raise ValueError("expected drop or park")
    return text == "park"


def parse_topic(text: str) -> str:
    """A legal name of a Kafka topic."""
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError("expected a Kafka topic: 1 to 249 letters, digits, '.', '_' or '-'")
    return text


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(f"expected either {' or '.join(repr(value) for value in values)}")
        return text

    return parse


def _any(text: str) -> str:
    return text


_LANES = frozenset({"Trigger", "Subscription"})
RULES: Mapping[str, tuple[frozenset[str], Callable[[str], object]]] = {
    BROKER_CLASS: (frozenset({"Broker"}), _any),
    EXTERNAL_TOPIC: (frozenset({"Broker"}), parse_topic),
    DELIVERY_ORDER: (_LANES, parse_order),
    SCOPE: (frozenset({"KafkaChannel"}), _one_of("cluster", "namespace")),
    INITIAL_OFFSET: (_LANES, parse_initial_offset),
    KEEP_POSITION: (_LANES, parse_bool),
    MAX_RATE: (_LANES, parse_rate),
    MAX_IN_FLIGHT: (_LANES, parse_count),
    ON_UNDELIVERABLE: (_LANES, parse_undeliverable),
    PAUSED: (_LANES, parse_bool),
    UNTIL: (_LANES, parse_offsets),
    HOP_LIMIT: (frozenset({"Broker", "Trigger"}), parse_count),
}
"""Annotation -> kinds that it belongs on, and how its value is read (a `ValueError` says what was expected)."""


def check_annotations(kind: str, annotations: Mapping[str, str]) -> Iterator[FieldError]:
    """Every annotation of ours that is unknown, misplaced, or has a value that can't be read."""
    for name, text in annotations.items():
        path = at("metadata", "annotations", name)
        rule = RULES.get(name)
        if rule is None:
            if name.startswith(OURS):
                known = [key for key, (kinds, _) in RULES.items() if kind in kinds and key.startswith(OURS)]
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known for {kind}: {', '.join(known) or 'none'}"
                yield FieldError("unknown annotation", (path,), hint)
        elif kind not in rule[0]:
            if name.startswith(OURS):
                yield FieldError("this annotation has no effect here", (path,), f"it belongs on {' or '.join(sorted(rule[0]))}")
        else:
            try:
                rule[1](text)
            except ValueError as error:
                yield invalid_value(text, path, str(error))


def lane_options(annotations: Mapping[str, str]) -> LaneOptions:
    """The options of a Trigger or Subscription that was admitted; a value that can't be read raises `ValueError`."""

    return LaneOptions(
        order=parse_order(annotations[DELIVERY_ORDER]) if DELIVERY_ORDER in annotations else None,
        initial_offset=parse_initial_offset(annotations.get(INITIAL_OFFSET, From.LATEST)),
        keep_position=parse_bool(annotations.get(KEEP_POSITION, "false")),
        max_rate=parse_rate(annotations[MAX_RATE]) if MAX_RATE in annotations else None,
        max_in_flight=parse_count(annotations[MAX_IN_FLIGHT]) if MAX_IN_FLIGHT in annotations else None,
        park_undeliverable=parse_undeliverable(annotations.get(ON_UNDELIVERABLE, "drop")),
        paused=parse_bool(annotations.get(PAUSED, "false")),
        until=parse_offsets(annotations[UNTIL]) if UNTIL in annotations else (),
        hop_limit=hop_limit(annotations),
    )


def hop_limit(annotations: Mapping[str, str]) -> int | None:
    """How often an event may pass the same Broker; `None`: no limit."""
    return parse_count(annotations[HOP_LIMIT]) if HOP_LIMIT in annotations else None


def dependency(text: str) -> dict[str, str]:
    """The object reference in `knative.dev/dependency`. Raises `ValueError` if it is not a JSON object of strings."""
    value = json.loads(text)
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError("expected a JSON object")
    return value
