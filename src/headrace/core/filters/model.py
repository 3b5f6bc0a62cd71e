"""What a filter is: a small immutable tree that can be compared, hashed and shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.base.errors import Terminal

Pairs = tuple[tuple[str, str], ...]
"""Names and values of attributes, in the order in which they were written."""

SCHEMA_NAMES = ("dataschema", "schemaurl")
"""One attribute under two names: 1.0 and 0.3. A filter on either sees both."""


class InvalidFilter(Terminal):
    """A filter that can't be used; `subject` is its path, such as `filters[0].any[1].prefix`."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """`filter.attributes`: every name must be present; a value that is not empty must be equal (specification: TriggerFilter)."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Exact:
    """Every attribute is present and equal."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Prefix:
    """Every attribute is present and starts with its value."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Suffix:
    """Every attribute is present and ends with its value."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class All:
    """All filters (one or more) accept the event."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one filter (of one or more) accepts the event."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The filter does not accept the event."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Cesql:
    """A CESQL expression gives true, and no error."""

    expression: str


Filter: TypeAlias = Attributes | Exact | Prefix | Suffix | All | Any | Not | Cesql
