"""What can be said against an expression without an event."""

from __future__ import annotations

from headrace.core.cesql import ast, functions


def check(node: ast.Node) -> str | None:
    """What makes an expression useless as a filter although it parses: a function that does not exist. None if nothing."""
    match node:
        case ast.Call(name, arguments):
            if functions.find(name, len(arguments)) is None:
                return f"there is no function {name} of {len(arguments)} arguments"
            children = arguments
        case ast.Not(operand) | ast.Negate(operand) | ast.Like(operand):
            children = (operand,)
        case ast.In(operand, elements):
            children = (operand, *elements)
        case ast.Arithmetic(_, left, right) | ast.Comparison(_, left, right):
            children = (left, right)
        case ast.Logic(operands):
            children = operands
        case _:
            children = ()
    return next((found for found in map(check, children) if found), None)
