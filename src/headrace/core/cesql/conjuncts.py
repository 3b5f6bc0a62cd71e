"""What an expression asks for in turn: the parts that AND joins. An index can share them, or look them up instead."""

from __future__ import annotations

from headrace.core.cesql import ast


def conjuncts(node: ast.Node) -> tuple[ast.Node, ...]:
    """The parts of which each must be true, without error and after a cast to Boolean, for `node` to be so.

    The other way round it holds too. An expression that is no AND is its own only part.
    """
    found: list[ast.Node] = []
    left = [node]
    while left:
        match left.pop():
            case ast.Logic((first, *rest), ("AND", *operators), depth):
                # Chains group to the right: `a AND b OR c` asks for a, and for `b OR c`.
                tail = rest[0] if len(rest) == 1 else ast.Logic(tuple(rest), tuple(operators), depth)
                left += [tail, first]
            case part:
                found.append(part)
    return tuple(found)


def is_true(node: ast.Node) -> ast.Node:
    """An expression that is true where `node` is after a cast to Boolean, as it is within an AND."""
    return ast.Logic((node, ast.Literal(True)), ("AND",), node.depth + 1)
