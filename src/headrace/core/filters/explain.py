"""Why a filter takes an event or not: the filter that decided, and what it saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.core import cesql
from headrace.core.contract import Egress
from headrace.core.filters.model import All, Any, Attributes, Cesql, Exact, Filter, Not, Prefix, Suffix
from headrace.core.filters.parse import filters_of_egress
from headrace.core.filters.predicate import compile_filter, reader


@dataclass(frozen=True, slots=True)
class Explanation:
    """`accepted`, the path of the filter that decided (`filters[0].all[1].exact.type`; empty where none had to), and why."""

    accepted: bool
    path: str
    reason: str


def explain_egress(egress: Egress, attributes: Mapping[str, str]) -> Explanation:
    """`explain` for the filters of an egress. Raises `InvalidFilter`."""
    return explain(filters_of_egress(egress), attributes)


def explain(filters: Iterable[Filter], attributes: Mapping[str, str]) -> Explanation:
    """Whether all `filters` accept `attributes`: the first that refuses decides, with none the last one that was asked."""
    decided = Explanation(True, "", "there is no filter, so every event is taken")
    for number, filter_ in enumerate(filters):
        path = "filter" if isinstance(filter_, Attributes) else f"filters[{number}]"
        decided = _decide(filter_, attributes, path)
        if not decided.accepted:
            break
    return decided


def _decide(filter_: Filter, attributes: Mapping[str, str], path: str) -> Explanation:
    match filter_:
        case Attributes(pairs):
            return _each(filter_, pairs, attributes, f"{path}.attributes")
        case Exact(pairs) | Prefix(pairs) | Suffix(pairs):
            return _each(filter_, pairs, attributes, f"{path}.{type(filter_).__name__.lower()}")
        case All(filters):
            return _several(filters, attributes, f"{path}.all", stop_at=False)
        case Any(filters):
            decided = _several(filters, attributes, f"{path}.any", stop_at=True)
            return decided if decided.accepted else Explanation(False, f"{path}.any", "none of its filters accepts the event")
        case Not(inner):
            decided = _decide(inner, attributes, f"{path}.not")
            return Explanation(not decided.accepted, f"{path}.not", f"{decided.path}: {decided.reason}")
        case Cesql(expression):
            return _cesql(expression, attributes, f"{path}.cesql")


def _several(filters: tuple[Filter, ...], attributes: Mapping[str, str], path: str, *, stop_at: bool) -> Explanation:
    """The first decision that is `stop_at`, else the last one."""
    for number, filter_ in enumerate(filters):
        decided = _decide(filter_, attributes, f"{path}[{number}]")
        if decided.accepted is stop_at:
            break
    return decided


def _each(filter_: Filter, pairs: tuple[tuple[str, str], ...], attributes: Mapping[str, str], path: str) -> Explanation:
    kind = type(filter_)
    for name, value in pairs:
        accepted = compile_filter(kind(((name, value),)))(attributes)  # type: ignore[arg-type]
        decided = Explanation(accepted, f"{path}.{name}", _words(filter_, name, value, reader(name)(attributes)))
        if not accepted:
            break
    return decided


def _words(filter_: Filter, name: str, value: str, found: str | None) -> str:
    saw = f"{name} is absent" if found is None else f"{name} is {found!r}"
    match filter_:
        case Prefix():
            wanted = f"a value that starts with {value!r}"
        case Suffix():
            wanted = f"a value that ends with {value!r}"
        case _:
            wanted = repr(value) if value else "any value"
    return f"{saw}, wanted {wanted}"


def _cesql(expression: str, attributes: Mapping[str, str], path: str) -> Explanation:
    result, error = cesql.compile(expression)(attributes)
    if error is not None:
        return Explanation(False, path, f"the expression has the error {error.kind}: {error.message}")
    return Explanation(result is True, path, f"the expression gives {cesql.text(result)}")
