"""An event, as every part of Headrace holds it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.base.errors import Terminal

VERSIONS = frozenset({"1.0", "0.3"})
"""The values of `specversion` that are read. An event is never moved from one to the other."""

TRACING = ("traceparent", "tracestate", "baggage")
"""Headers that travel beside an event, unchanged, under the same names in HTTP and Kafka."""


class InvalidEvent(Terminal):
    """What was read is no valid CloudEvent; `subject` names the attribute, header or member that is wrong."""


@dataclass(frozen=True, slots=True)
class Event:
    """One CloudEvent.

    `attributes` maps lower-case names to canonical strings; it includes `specversion`, `id`, `source` and `type`, and
    `datacontenttype` where there is one. Nobody changes it once the event is made. `data` is None where the event has none.
    `passthrough` holds the tracing headers (`TRACING`) that came with it: they are no attributes and no filter sees them.
    """

    attributes: dict[str, str]
    data: bytes | None
    passthrough: tuple[tuple[str, str], ...] = ()
