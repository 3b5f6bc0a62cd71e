"""What an expression requires of an event to be true, as far as that is a value of one attribute: the way into an index."""

from __future__ import annotations

from headrace.core.cesql import ast


def required_values(node: ast.Node) -> dict[str, frozenset[str]]:
    """Attributes that must have one of some values wherever `node` is true without error.

    It sees `attribute = 'text'` and `attribute IN ('text', ...)`, joined by AND.
    """
    match node:
        case ast.Comparison("=", ast.Identifier(name), ast.Literal(str() as value)):
            return {name: frozenset({value})}
        case ast.In(ast.Identifier(name), elements, False):
            values = [element.value for element in elements if isinstance(element, ast.Literal)]
            if len(values) == len(elements) and all(isinstance(value, str) for value in values):
                return {name: frozenset(str(value) for value in values)}
        case ast.Logic(operands, operators):
            # Only the operands before the first operator that is no AND are joined to all of the rest.
            joined = next((index for index, operator in enumerate(operators) if operator != "AND"), len(operands))
            found: dict[str, frozenset[str]] = {}
            for operand in operands[:joined]:
                for name, wanted in required_values(operand).items():
                    found[name] = found[name] & wanted if name in found else wanted
            return found
    return {}
