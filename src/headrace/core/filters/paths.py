"""Filters as alternatives of conjunctions: the ways on which an event can come to be accepted.

A path is a set of conditions that must all hold: an exact value, a prefix or a suffix of one attribute, which can be looked up, or
anything else, which has to be asked. A filter is true exactly where all conditions of at least one of its paths are. The parts of a
CESQL expression that AND joins are conditions of their own, and those that say what a dialect says become that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core import cesql
from headrace.core.cesql import ast
from headrace.core.filters.model import SCHEMA_NAMES, All, Any, Attributes, Cesql, Exact, Filter, Not, Prefix, Suffix
from headrace.core.filters.predicate import Predicate, compile_filter, compile_tree

MAX_PATHS = 64
"""A filter with more alternatives than this is asked, not looked up."""

_FIRST = {"type": 0, "source": 1}
_PREFIX = re.compile(r"([^%_\\]+)%")
_SUFFIX = re.compile(r"%([^%_\\]+)")


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a CESQL expression that is true after a cast to Boolean."""

    node: ast.Node


Condition: TypeAlias = Filter | Term
Path: TypeAlias = tuple[Condition, ...]


def paths_of(filters: Iterable[Filter]) -> tuple[Path, ...]:
    """The paths of "all `filters`", each in the order in which it is best asked; none where nothing can ever be accepted."""
    ordered = (_ordered(path) for path in _product(tuple(filters)))
    return tuple(dict.fromkeys(path for path in ordered if path is not None))


def lookup(condition: Condition) -> tuple[str, str] | None:
    """Name and value of a condition that can be looked up, None for one that has to be asked."""
    if isinstance(condition, (Exact, Prefix, Suffix)) and len(condition.pairs) == 1:
        name, value = condition.pairs[0]
        return None if name in SCHEMA_NAMES else (name, value)
    return None


def compile_condition(condition: Condition) -> Predicate:
    """The function to ask."""
    return compile_tree(cesql.is_true(condition.node)) if isinstance(condition, Term) else compile_filter(condition)


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
        case Not(Any(filters)):
            return _product(tuple(Not(item) for item in filters))
        case Not():
            return [(filter_,)]
        case Cesql(expression):
            return _cesql(filter_, cesql.parse(expression))


def _product(filters: tuple[Filter, ...]) -> list[Path]:
    paths: list[Path] = [()]
    for item in filters:
        alternatives = _paths(item)
        if len(paths) * len(alternatives) > MAX_PATHS:
            alternatives = [(item,)]
        paths = [(*path, *more) for path in paths for more in alternatives]
    return paths


def _cesql(filter_: Filter, tree: ast.Node) -> list[Path]:
    parts = cesql.conjuncts(tree)
    paths: list[Path] = [()]
    for part in parts:
        alternatives = _dialects(part)
        if alternatives is None or len(paths) * len(alternatives) > MAX_PATHS:
            # The whole expression must be Boolean by itself; a part of an AND is cast to it.
            alternatives = [(filter_ if part is tree else Term(part),)]
        paths = [(*path, *more) for path in paths for more in alternatives]
    return paths


def _dialects(part: ast.Node) -> list[Path] | None:
    """What the other dialects have for `part`, None if nothing. (Attributes are strings; empty values are not looked up.)"""
    match part:
        case ast.Comparison("=", ast.Identifier(name), ast.Literal(str(value))) if value and name not in SCHEMA_NAMES:
            return [(Exact(((name, value),)),)]
        case ast.In(ast.Identifier(name), elements, False) if name not in SCHEMA_NAMES:
            values = {item.value if isinstance(item, ast.Literal) else None for item in elements}
            if all(isinstance(value, str) and value for value in values):
                return [(Exact(((name, str(value)),)),) for value in sorted(map(str, values))]
        case ast.Like(ast.Identifier(name), pattern, False) if name not in SCHEMA_NAMES:
            if (found := _PREFIX.fullmatch(pattern)) is not None:
                return [(Prefix(((name, found[1]),)),)]
            if (found := _SUFFIX.fullmatch(pattern)) is not None:
                return [(Suffix(((name, found[1]),)),)]
    return None


def _ordered(path: Path) -> Path | None:
    """The path without repetitions in its best order, None if two of its values contradict each other."""
    exact: dict[str, str] = {}
    for condition in path:
        if isinstance(condition, Exact):
            for name, value in condition.pairs:
                if exact.setdefault(name, value) != value:
                    return None
    return tuple(sorted(dict.fromkeys(path), key=_rank))


def _rank(condition: Condition) -> tuple[int, int, str]:
    if lookup(condition) is None:
        return 3, 0, repr(condition)
    kind = 0 if isinstance(condition, Exact) else 1 if isinstance(condition, Prefix) else 2
    return kind, _FIRST.get(condition.pairs[0][0], 2), repr(condition)  # type: ignore[union-attr]  # lookup saw to it
