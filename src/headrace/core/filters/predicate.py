"""Filters compiled to functions of an event's attributes.

An attribute that is absent: `exact`, `prefix`, `suffix` and `filter.attributes` are false, so `not` of them is true. CESQL is true
only for the Boolean true without any error. A predicate never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headrace.core import cesql
from headrace.core.cesql import ast
from headrace.core.contract import Egress
from headrace.core.filters.model import (
    SCHEMA_NAMES,
    All,
    Any,
    Attributes,
    Cesql,
    Exact,
    Filter,
    Not,
    Prefix,
    Suffix,
)
from headrace.core.filters.parse import filters_of_egress

Predicate = Callable[[Mapping[str, str]], bool]
Read = Callable[[Mapping[str, str]], str | None]


def compile_egress(egress: Egress) -> Predicate:
    """The predicate of an egress. Raises `InvalidFilter`, whose subject is the path of what is wrong."""
    return compile_filters(filters_of_egress(egress))


def compile_filters(filters: Iterable[Filter]) -> Predicate:
    """A predicate that is true where all `filters` are; without any it is always true."""
    return _all([compile_filter(item) for item in filters])


def compile_filter(filter_: Filter) -> Predicate:
    """The predicate of one filter."""
    match filter_:
        case Attributes(pairs):
            return _all([_equals(name, value) if value else _present(name) for name, value in pairs])
        case Exact(pairs):
            return _all([_equals(name, value) for name, value in pairs])
        case Prefix(pairs):
            return _all([_starts(name, value) for name, value in pairs])
        case Suffix(pairs):
            return _all([_ends(name, value) for name, value in pairs])
        case All(filters):
            return _all([compile_filter(item) for item in filters])
        case Any(filters):
            return _any([compile_filter(item) for item in filters])
        case Not(inner):
            return _not(compile_filter(inner))
        case Cesql(expression):
            return compile_tree(cesql.parse(expression))


def reader(name: str) -> Read:
    """The function that reads attribute `name`; None where it is absent."""
    if name in SCHEMA_NAMES:
        first, second = SCHEMA_NAMES
        return lambda attributes: attributes.get(first, attributes.get(second))
    return lambda attributes: attributes.get(name)


def _equals(name: str, value: str) -> Predicate:
    if name in SCHEMA_NAMES:
        read = reader(name)
        return lambda attributes: read(attributes) == value
    return lambda attributes: attributes.get(name) == value


def _present(name: str) -> Predicate:
    read = reader(name)
    return lambda attributes: read(attributes) is not None


def _starts(name: str, value: str) -> Predicate:
    read = reader(name)
    return lambda attributes: (found := read(attributes)) is not None and found.startswith(value)


def _ends(name: str, value: str) -> Predicate:
    read = reader(name)
    return lambda attributes: (found := read(attributes)) is not None and found.endswith(value)


def _not(inner: Predicate) -> Predicate:
    return lambda attributes: not inner(attributes)


def compile_tree(tree: ast.Node) -> Predicate:
    """The predicate of a CESQL expression."""
    evaluate = cesql.compile_tree(tree)

    def accepts(attributes: Mapping[str, str]) -> bool:
        result, error = evaluate(attributes)
        return result is True and error is None

    return accepts


def _all(predicates: list[Predicate]) -> Predicate:
    if len(predicates) == 1:
        return predicates[0]

    def accepts(attributes: Mapping[str, str]) -> bool:
        for predicate in predicates:  # noqa: SIM110  # a loop costs half of all() over a generator
            if not predicate(attributes):
                return False
        return True

    return accepts


def _any(predicates: list[Predicate]) -> Predicate:
    if len(predicates) == 1:
        return predicates[0]

    def accepts(attributes: Mapping[str, str]) -> bool:
        for predicate in predicates:  # noqa: SIM110  # a loop costs half of any() over a generator
            if predicate(attributes):
                return True
        return False

    return accepts
