"""Filters as alternatives of conjunctions: the ways on which an event can come to be accepted.

A path is a set of conditions that must all hold: an exact value, a prefix or a suffix of one attribute, which can be looked up, or
any other filter, which has to be asked. A filter is true exactly where all conditions of at least one of its paths are.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core import cesql
from headrace.core.filters.model import SCHEMA_NAMES, All, Any, Attributes, Cesql, Exact, Filter, Not, Prefix, Suffix

Path = tuple[Filter, ...]

MAX_PATHS = 64
"""A filter with more alternatives than this is asked, not looked up."""

_FIRST = {"type": 0, "source": 1}


def paths_of(filters: Iterable[Filter]) -> tuple[Path, ...]:
    """The paths of "all `filters`", each in the order in which it is best asked; none where nothing can ever be accepted."""
    ordered = (_ordered(path) for path in _product(tuple(filters)))
    return tuple(dict.fromkeys(path for path in ordered if path is not None))


def lookup(condition: Filter) -> tuple[str, str] | None:
    """Name and value of a condition that can be looked up, None for one that has to be asked."""
    if isinstance(condition, (Exact, Prefix, Suffix)) and len(condition.pairs) == 1:
        name, value = condition.pairs[0]
        return None if name in SCHEMA_NAMES else (name, value)
    return None


def _paths(filter_: Filter) -> list[Path]:
    match filter_:
        case Exact(pairs) | Prefix(pairs) | Suffix(pairs):
            kind = type(filter_)
            return [tuple(kind((pair,)) for pair in pairs)]
        case Attributes(pairs):
            return [tuple(Exact(((name, value),)) if value else Attributes(((name, value),)) for name, value in pairs)]
        case All(filters):
            return _product(filters)
        case Any(filters):
            alternatives = [path for item in filters for path in _paths(item)]
            worthwhile = all(any(map(lookup, path)) for path in alternatives)
            return alternatives if worthwhile and len(alternatives) <= MAX_PATHS else [(filter_,)]
        case Not(Not(inner)):
            return _paths(inner)
        case Not():
            return [(filter_,)]
        case Cesql(expression):
            return _cesql(filter_, expression)


def _product(filters: tuple[Filter, ...]) -> list[Path]:
    paths: list[Path] = [()]
    for item in filters:
        alternatives = _paths(item)
        if len(paths) * len(alternatives) > MAX_PATHS:
            alternatives = [(item,)]
        paths = [(*path, *more) for path in paths for more in alternatives]
    return paths


def _cesql(filter_: Filter, expression: str) -> list[Path]:
    """The expression has to be asked, but not of events without the values that it requires."""
    paths: list[Path] = [(filter_,)]
    for name, values in cesql.required_values(cesql.parse(expression)).items():
        if len(paths) * len(values) <= MAX_PATHS:
            paths = [(Exact(((name, value),)), *path) for path in paths for value in sorted(values)]
    return paths


def _ordered(path: Path) -> Path | None:
    """The path without repetitions in its best order, None if two of its values contradict each other."""
    exact: dict[str, str] = {}
    for condition in path:
        if isinstance(condition, Exact):
            for name, value in condition.pairs:
                if exact.setdefault(name, value) != value:
                    return None
    return tuple(sorted(dict.fromkeys(path), key=_rank))


def _rank(condition: Filter) -> tuple[int, int, str]:
    if lookup(condition) is None:
        return 3, 0, repr(condition)
    kind = 0 if isinstance(condition, Exact) else 1 if isinstance(condition, Prefix) else 2
    return kind, _FIRST.get(condition.pairs[0][0], 2), repr(condition)  # type: ignore[union-attr]  # lookup saw to it
