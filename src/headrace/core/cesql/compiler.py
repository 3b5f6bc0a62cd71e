"""From tree to closures, once per expression; evaluating calls them and looks at no tree.

Errors stop an evaluation at once. The result then is the zero value of the whole expression's type, unless the outermost
operation itself failed and gives another one (`LEFT('abc', -2)` is `'abc'`). A missing attribute gives, by the same rule, the
zero value of the smallest operation around it and of each further one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from headrace.core.cesql import ast, functions
from headrace.core.cesql.casts import CASTS, NAMES, ZERO, CastError, Value, to_boolean, to_string, wrap
from headrace.core.cesql.errors import CesqlError, Kind, ParseError
from headrace.core.cesql.like import matcher
from headrace.core.cesql.parser import parse

Attributes = Mapping[str, Value]
"""Attributes by name. Events of ours hold strings only; Integers and Booleans are taken as what they are."""
Step = Callable[[Attributes], Value]
Evaluate = Callable[[Attributes], tuple[Value, CesqlError | None]]

REQUIRED = frozenset({"specversion", "id", "source", "type"})

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: wrap(left + right),
    "-": lambda left, right: wrap(left - right),
    "*": lambda left, right: wrap(left * right),
    "/": lambda left, right: wrap(_quotient(left, right)),
    "%": lambda left, right: left - right * _quotient(left, right),
}
_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
}


class _Stop(Exception):
    """An error on its way out; `value` is the result if `node` is the outermost one."""

    def __init__(self, kind: Kind, message: str, node: ast.Node, value: Value = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.node = node
        self.value = value


@lru_cache(maxsize=1024)
def compile(expression: str) -> Evaluate:  # as re.compile: the module's name belongs to the word
    """The function that evaluates `expression`. Raises `ParseError`."""
    return compile_tree(parse(expression))


def compile_tree(node: ast.Node) -> Evaluate:
    """The function that evaluates a tree."""
    step, zero = _step(node), ZERO[_type(node) or bool]

    def run(attributes: Attributes) -> tuple[Value, CesqlError | None]:
        try:
            return step(attributes), None
        except _Stop as stop:
            return stop.value if stop.node is node else zero, CesqlError(stop.kind, str(stop))

    return run


def evaluate(expression: str, attributes: Attributes) -> tuple[Value, CesqlError | None]:
    """The result of `expression`; one that does not parse gives false and an error of kind `parse`."""
    try:
        return compile(expression)(attributes)
    except ParseError as error:
        return False, CesqlError(Kind.PARSE, str(error))


def _type(node: ast.Node) -> type | None:
    """The type of a node's value; None where only the event can tell."""
    match node:
        case ast.Literal(value):
            return type(value)
        case ast.Identifier():
            return None
        case ast.Negate() | ast.Arithmetic():
            return int
        case ast.Call(name, arguments):
            function = functions.find(name, len(arguments))
            return function.result if function else bool
        case _:
            return bool


def _step(node: ast.Node) -> Step:
    match node:
        case ast.Literal(value):
            return lambda attributes: value
        case ast.Identifier(name):
            return _identifier(node, name)
        case ast.Exists(name):
            return _exists(name)
        case ast.Not(operand):
            return _not(node, operand)
        case ast.Negate(operand):
            number = _cast(node, operand, int)
            return lambda attributes: wrap(-number(attributes))
        case ast.Like(operand, pattern, negated):
            return _like(node, operand, pattern, negated)
        case ast.In(operand, elements, negated):
            return _in(node, operand, elements, negated)
        case ast.Arithmetic(operator, left, right):
            return _arithmetic(node, operator, left, right)
        case ast.Comparison("=" | "!=" as operator, left, right):
            return _equal(node, left, right, negated=operator == "!=")
        case ast.Comparison(operator, left, right):
            order, first, second = _ORDER[operator], _cast(node, left, int), _cast(node, right, int)
            return lambda attributes: order(first(attributes), second(attributes))
        case ast.Logic(operands, operators):
            return _logic(node, operands, operators)
        case ast.Call(name, arguments):
            return _call(node, name, arguments)


def _cast(node: ast.Node, operand: ast.Node, target: type) -> Callable[[Attributes], Any]:
    """The operand as `target`; where it can't be, `node` fails with its zero value."""
    step, cast = _step(operand), CASTS[target]
    if _type(operand) is target:
        return step
    zero = ZERO[_type(node) or bool]

    def run(attributes: Attributes) -> Value:
        value = step(attributes)
        if value.__class__ is target:
            return value
        try:
            return cast(value)
        except CastError as error:
            raise _Stop(Kind.CAST, str(error), node, zero) from None

    return run


def _identifier(node: ast.Node, name: str) -> Step:
    def run(attributes: Attributes) -> Value:
        value = attributes.get(name)
        if value is None:
            raise _Stop(Kind.MISSING_ATTRIBUTE, f"the event has no attribute {name}", node)
        return value

    return run


def _exists(name: str) -> Step:
    if name in REQUIRED:
        return lambda attributes: True
    return lambda attributes: name in attributes


def _not(node: ast.Node, operand: ast.Node) -> Step:
    """The compatibility kit wants `NOT 10` to be true with a cast error: no Integer is a Boolean here, unlike elsewhere."""
    step = _step(operand)

    def run(attributes: Attributes) -> Value:
        value = step(attributes)
        if value.__class__ is bool:
            return not value
        try:
            truth = to_boolean(value)
        except CastError as error:
            raise _Stop(Kind.CAST, str(error), node, False) from None
        if value.__class__ is int:
            raise _Stop(Kind.CAST, f"{value} is no {NAMES[bool]}", node, True)
        return not truth

    return run


def _like(node: ast.Node, operand: ast.Node, pattern: str, negated: bool) -> Step:
    matches, value = matcher(pattern), _cast(node, operand, str)
    return lambda attributes: matches(value(attributes)) is not negated


def _in(node: ast.Node, operand: ast.Node, elements: tuple[ast.Node, ...], negated: bool) -> Step:
    """The elements take the type of the left side; all of them are evaluated."""
    value, steps = _step(operand), [_step(element) for element in elements]
    texts = frozenset(to_string(element.value) for element in elements if isinstance(element, ast.Literal))
    constant = all(isinstance(element, ast.Literal) for element in elements)

    def run(attributes: Attributes) -> Value:
        left = value(attributes)
        if constant and left.__class__ is str:
            return (left in texts) is not negated
        cast = CASTS[left.__class__]
        try:
            found = left in [cast(step(attributes)) for step in steps]
        except CastError as error:
            raise _Stop(Kind.CAST, str(error), node) from None
        return found is not negated

    return run


def _arithmetic(node: ast.Node, operator: str, left: ast.Node, right: ast.Node) -> Step:
    apply, first, second = _ARITHMETIC[operator], _cast(node, left, int), _cast(node, right, int)

    def run(attributes: Attributes) -> Value:
        try:
            return apply(first(attributes), second(attributes))
        except ZeroDivisionError:
            raise _Stop(Kind.MATH, "division by zero", node, 0) from None

    return run


def _quotient(left: int, right: int) -> int:
    """Division toward zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _equal(node: ast.Node, left: ast.Node, right: ast.Node, *, negated: bool) -> Step:
    """Equality casts its left side to the type of its right side."""
    if isinstance(left, ast.Identifier) and isinstance(right, ast.Literal) and isinstance(right.value, str):
        return _attribute_equals(left, right.value, negated)
    first, second = _step(left), _step(right)

    def run(attributes: Attributes) -> Value:
        value, wanted = first(attributes), second(attributes)
        if value.__class__ is not wanted.__class__:
            try:
                value = CASTS[wanted.__class__](value)
            except CastError as error:
                raise _Stop(Kind.CAST, str(error), node) from None
        return (value == wanted) is not negated

    return run


def _attribute_equals(identifier: ast.Identifier, wanted: str, negated: bool) -> Step:
    """The commonest expression of all, in one step."""
    name = identifier.name

    def run(attributes: Attributes) -> Value:
        value = attributes.get(name)
        if value.__class__ is not str:
            if value is None:
                raise _Stop(Kind.MISSING_ATTRIBUTE, f"the event has no attribute {name}", identifier)
            value = to_string(value)
        return (value == wanted) is not negated

    return run


def _logic(node: ast.Node, operands: tuple[ast.Node, ...], operators: tuple[str, ...]) -> Step:
    """A chain that groups to the right: each operator decides, or leaves the decision to the rest; XOR turns it round."""
    *steps, last = [_cast(node, operand, bool) for operand in operands]
    chain = tuple(zip(steps, operators, strict=True))
    if len(chain) == 1 and operators[0] != "XOR":
        first = steps[0]
        if operators[0] == "AND":
            return lambda attributes: first(attributes) and last(attributes)
        return lambda attributes: first(attributes) or last(attributes)

    def run(attributes: Attributes) -> Value:
        turned = False
        for step, operator in chain:
            truth = bool(step(attributes))
            if operator == "XOR":
                turned ^= truth
            elif truth is (operator == "OR"):
                return truth ^ turned
        return bool(last(attributes)) ^ turned

    return run


def _call(node: ast.Node, name: str, arguments: tuple[ast.Node, ...]) -> Step:
    function = functions.find(name, len(arguments))
    if function is None:
        message = f"there is no function {name} of {len(arguments)} arguments"

        def missing(attributes: Attributes) -> Value:
            raise _Stop(Kind.MISSING_FUNCTION, message, node)

        return missing
    call = function.call
    steps: list[Step] = []
    for index, argument in enumerate(arguments):
        target = function.parameter(index)
        steps.append(_step(argument) if target is None else _cast(node, argument, target))

    def run(attributes: Attributes) -> Value:
        try:
            return call(*[step(attributes) for step in steps])
        except functions.FunctionError as error:
            raise _Stop(error.kind, str(error), node, error.value) from None

    return run
