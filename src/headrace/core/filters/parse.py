"""From the two written forms of filters to the tree, and back to the contract's form.

A Trigger writes `{"exact": {"type": "a"}}`, `{"all": [...]}`, `{"not": {...}}`, `{"cesql": "..."}` (Subscriptions API 3.2.4); the
contract writes `{"exact": {"attributes": {...}}}`, `{"all": {"filters": [...]}}`, `{"not": {"filter": {...}}}`,
`{"cesql": {"expression": "..."}}`. A dialect that is not known, or none, or two at once, is refused: an event must never
reach a subscriber because its filter was not understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any as Json

from headrace.core import cesql
from headrace.core.contract import Egress
from headrace.core.filters.model import All, Any, Attributes, Cesql, Exact, Filter, InvalidFilter, Not, Pairs, Prefix, Suffix

_MAPS: dict[str, Callable[[Pairs], Filter]] = {"exact": Exact, "prefix": Prefix, "suffix": Suffix}
_LISTS: dict[str, Callable[[tuple[Filter, ...]], Filter]] = {"all": All, "any": Any}
DIALECTS = (*_MAPS, *_LISTS, "not", "cesql")

_CONTRACT_NAME = re.compile(r"[a-z0-9]+")
_TRIGGER_NAME = re.compile(r"[a-z][a-z0-9]*")
_DEPTH = 32


def filters_of_egress(egress: Egress) -> tuple[Filter, ...]:
    """The filters of an egress, all of which must accept an event; empty means that every event is taken.

    `dialectedFilter` counts where it is not empty, else `filter`. Raises `InvalidFilter`.
    """
    if egress.dialected_filter:
        return tuple(_contract_filter(raw, f"dialectedFilter[{n}]") for n, raw in enumerate(egress.dialected_filter))
    return _attributes(egress.filter.get("attributes"), "filter.attributes", _CONTRACT_NAME)


def parse_trigger_filters(filters: Iterable[Json] | None, legacy: Mapping[str, Json] | None = None) -> tuple[Filter, ...]:
    """The filters of a Trigger: `spec.filters` where it is not empty, else `spec.filter` (`legacy`). Raises `InvalidFilter`."""
    parsed = tuple(_trigger_filter(raw, f"spec.filters[{n}]") for n, raw in enumerate(filters or ()))
    return parsed or _attributes((legacy or {}).get("attributes"), "spec.filter.attributes", _TRIGGER_NAME)


def to_contract(filter_: Filter) -> dict[str, Json]:
    """The contract's form of one filter, an element of `dialectedFilter`.

    `Attributes` has none: it goes to `filter` as `{"attributes": dict(pairs)}`; asking for it is a `ValueError`.
    """
    match filter_:
        case Exact(pairs) | Prefix(pairs) | Suffix(pairs):
            return {type(filter_).__name__.lower(): {"attributes": dict(pairs)}}
        case All(filters) | Any(filters):
            return {type(filter_).__name__.lower(): {"filters": [to_contract(item) for item in filters]}}
        case Not(inner):
            return {"not": {"filter": to_contract(inner)}}
        case Cesql(expression):
            return {"cesql": {"expression": expression}}
        case Attributes():
            raise ValueError("filter.attributes is no dialect")


def _contract_filter(raw: Json, path: str, depth: int = 0) -> Filter:
    dialect, value = _dialect(raw, path, depth)
    path = f"{path}.{dialect}"
    value = _expect(value, Mapping, "an object", path)
    if dialect in _MAPS:
        return _MAPS[dialect](_pairs(value.get("attributes"), path, _CONTRACT_NAME))
    if dialect in _LISTS:
        return _LISTS[dialect](_several(value.get("filters"), path, depth, _contract_filter))
    if dialect == "not":
        return Not(_contract_filter(value.get("filter"), path, depth + 1))
    return _cesql(value.get("expression"), path)


def _trigger_filter(raw: Json, path: str, depth: int = 0) -> Filter:
    dialect, value = _dialect(raw, path, depth)
    path = f"{path}.{dialect}"
    if dialect in _MAPS:
        return _MAPS[dialect](_pairs(value, path, _TRIGGER_NAME))
    if dialect in _LISTS:
        return _LISTS[dialect](_several(value, path, depth, _trigger_filter))
    if dialect == "not":
        return Not(_trigger_filter(value, path, depth + 1))
    return _cesql(value, path)


def _dialect(raw: Json, path: str, depth: int) -> tuple[str, Json]:
    if depth > _DEPTH:
        raise InvalidFilter(f"filters are nested more than {_DEPTH} deep", subject=path)
    raw = _expect(raw, Mapping, "an object with one dialect", path)
    if len(raw) > 1:
        raise InvalidFilter(
            "multiple dialects found, filters can have only one dialect set", subject=path, hint="Use `all` to combine them"
        )
    for dialect, value in raw.items():
        if dialect in DIALECTS:
            return dialect, value
        raise InvalidFilter(f"unknown dialect {dialect!r}", subject=path, hint=f"Known are {', '.join(DIALECTS)}")
    raise InvalidFilter("no dialect found", subject=path, hint=f"Set one of {', '.join(DIALECTS)}")


def _pairs(raw: Json, path: str, names: re.Pattern[str]) -> Pairs:
    pairs = _checked_pairs(raw, path, names)
    if not pairs:
        raise InvalidFilter("expected at least one attribute", subject=path)
    for name, value in pairs:
        if not value:
            raise InvalidFilter("the value must not be empty", subject=f"{path}.{name}")
    return pairs


def _attributes(raw: Json, path: str, names: re.Pattern[str]) -> tuple[Filter, ...]:
    pairs = _checked_pairs(raw or {}, path, names)
    return (Attributes(pairs),) if pairs else ()


def _checked_pairs(raw: Json, path: str, names: re.Pattern[str]) -> Pairs:
    raw = _expect(raw or {}, Mapping, "an object of attribute names and values", path)
    for name, value in raw.items():
        if not isinstance(name, str) or names.fullmatch(name) is None:
            raise InvalidFilter(
                "Attribute name must start with a letter and can only contain lowercase alphanumeric", subject=f"{path}.{name}"
            )
        _expect(value, str, "a string", f"{path}.{name}")
    return tuple(raw.items())


def _several(raw: Json, path: str, depth: int, parse: Callable[[Json, str, int], Filter]) -> tuple[Filter, ...]:
    items = _expect(raw or [], list, "a list of filters", path)
    if not items:
        raise InvalidFilter("expected at least one filter", subject=path)
    return tuple(parse(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(items))


def _cesql(raw: Json, path: str) -> Filter:
    text = _expect(raw, str, "a CESQL expression", path)
    try:
        wrong = cesql.check(cesql.parse(text))
    except cesql.ParseError as error:
        raise InvalidFilter(error.message, subject=path, hint=error.hint) from None
    if wrong:
        raise InvalidFilter(wrong, subject=path)
    return Cesql(text)


def _expect(value: Json, kind: type, words: str, path: str) -> Json:
    if not isinstance(value, kind):
        raise InvalidFilter(f"expected {words}, got {value!r:.80}", subject=path)
    return value
