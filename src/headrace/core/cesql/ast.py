"""The tree of an expression. Every node knows how deep it is, since depth is what an evaluation costs in stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.cesql.casts import Value


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Identifier:
    """An attribute, by its lower-case name."""

    name: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Exists:
    name: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Like:
    """`pattern` still holds its escapes."""

    operand: Node
    pattern: str
    negated: bool
    depth: int


@dataclass(frozen=True, slots=True)
class In:
    operand: Node
    elements: tuple[Node, ...]
    negated: bool
    depth: int


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`operator` is one of `+ - * / %`."""

    operator: str
    left: Node
    right: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of `= != < <= > >=` (`<>` is read as `!=`)."""

    operator: str
    left: Node
    right: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Logic:
    """`a AND b OR c`, as a chain: the operators have one level and group to the right, so this is `a AND (b OR c)`.

    `operators[i]` (`AND`, `OR`, `XOR`) stands between operand i and the rest.
    """

    operands: tuple[Node, ...]
    operators: tuple[str, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function by its upper-case name."""

    name: str
    arguments: tuple[Node, ...]
    depth: int


Node: TypeAlias = Literal | Identifier | Exists | Not | Negate | Like | In | Arithmetic | Comparison | Logic | Call
