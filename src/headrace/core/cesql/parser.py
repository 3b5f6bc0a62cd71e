"""From text to tree, and from what does not fit to an error that helps: line, column, what could have stood there.

Precedence as in the specification's grammar: function calls and atoms; NOT and unary minus; LIKE, IN; `* / %`; `+ -`;
comparisons; AND, OR and XOR, which have one level and group to the right. Keywords and names are case-insensitive.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from headrace.core.cesql import ast
from headrace.core.cesql.casts import INT_MAX, INT_MIN
from headrace.core.cesql.errors import ParseError

MAX_DEPTH = 100
"""Nesting that is still evaluated; parentheses and chains of AND and OR cost none."""
MAX_LENGTH = 65_536
"""Characters of an expression."""

_GRAMMAR = r"""
?start: logic
?logic: comparison | comparison ((AND | OR | XOR) comparison)+ -> logic
?comparison: additive | comparison COMPARISON additive -> comparison
?additive: multiplicative | additive (PLUS | MINUS) multiplicative -> arithmetic
?multiplicative: postfix | multiplicative (STAR | SLASH | PERCENT) postfix -> arithmetic
?postfix: unary
    | postfix LIKE STRING -> like
    | postfix NOT LIKE STRING -> not_like
    | postfix IN elements -> in_set
    | postfix NOT IN elements -> not_in_set
?unary: atom
    | NOT unary -> negation
    | MINUS unary -> minus
?atom: "(" logic ")"
    | FUNCTION "(" [logic ("," logic)*] ")" -> call
    | EXISTS _name -> exists
    | IDENTIFIER -> identifier
    | INTEGER -> integer
    | BOOLEAN -> boolean
    | STRING -> string
elements: "(" logic ("," logic)* ")"
_name: IDENTIFIER | INTEGER

AND.4: /AND(?![a-z0-9_])/i
OR.4: /OR(?![a-z0-9_])/i
XOR.4: /XOR(?![a-z0-9_])/i
NOT.4: /NOT(?![a-z0-9_])/i
LIKE.4: /LIKE(?![a-z0-9_])/i
IN.4: /IN(?![a-z0-9_])/i
EXISTS.4: /EXISTS(?![a-z0-9_])/i
BOOLEAN.4: /(true|false)(?![a-z0-9_])/i
FUNCTION.3: /(?!(?:AND|OR|XOR|NOT|LIKE|IN|EXISTS|TRUE|FALSE)[ \t\r\n]*\()[a-z][a-z_]*(?=[ \t\r\n]*\()/i
INTEGER.2: /[+-]?[0-9]+(?![a-z0-9_])/i
IDENTIFIER.1: /(?!(?:AND|OR|XOR|NOT|LIKE|IN|EXISTS|TRUE|FALSE)(?![a-z0-9_]))[a-z0-9]+(?![a-z0-9_])/i
STRING: /'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*"/s
COMPARISON: "=" | "!=" | "<>" | "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
STAR: "*"
SLASH: "/"
PERCENT: "%"
%ignore /[ \t\r\n]+/
"""

_WORDS = {
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "COMPARISON": "a comparison",
    "PLUS": "an arithmetic operator",
    "MINUS": "an arithmetic operator",
    "STAR": "an arithmetic operator",
    "SLASH": "an arithmetic operator",
    "PERCENT": "an arithmetic operator",
    "FUNCTION": "a function",
    "INTEGER": "a number",
    "BOOLEAN": "TRUE or FALSE",
    "IDENTIFIER": "the name of an attribute",
    "STRING": "a string in quotation marks",
    "$END": "the end of the expression",
}
_OPERAND = {"FUNCTION", "BOOLEAN", "IDENTIFIER", "STRING", "LPAR"}
_ESCAPED_QUOTES = {"'": re.compile(r"\\'|''"), '"': re.compile(r'\\"|""')}


@lru_cache(maxsize=1024)
def parse(expression: str) -> ast.Node:
    """The tree of `expression`. Raises `ParseError`."""
    if len(expression) > MAX_LENGTH:
        raise ParseError(f"the expression is longer than {MAX_LENGTH} characters", line=1, column=1)
    try:
        return _parser().parse(expression)  # type: ignore[return-value]
    except UnexpectedInput as error:
        raise _explain(expression, error) from None


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False, transformer=_Builder())


def _depth(*nodes: ast.Node) -> int:
    depth = 1 + max((node.depth for node in nodes), default=0)
    if depth > MAX_DEPTH:
        raise ParseError(f"the expression is nested more than {MAX_DEPTH} deep", line=1, column=1)
    return depth


class _Builder(Transformer[Token, ast.Node]):
    """Each method is a rule of the grammar; its argument holds the rule's parts."""

    def logic(self, parts: list[Any]) -> ast.Node:
        operands, operators = tuple(parts[0::2]), tuple(str(operator).upper() for operator in parts[1::2])
        return ast.Logic(operands, operators, _depth(*operands))

    def comparison(self, parts: list[Any]) -> ast.Node:
        left, operator, right = parts
        return ast.Comparison("!=" if operator == "<>" else str(operator), left, right, _depth(left, right))

    def arithmetic(self, parts: list[Any]) -> ast.Node:
        left, operator, right = parts
        return ast.Arithmetic(str(operator), left, right, _depth(left, right))

    def like(self, parts: list[Any]) -> ast.Node:
        return ast.Like(parts[0], _unquote(parts[2]), False, _depth(parts[0]))

    def not_like(self, parts: list[Any]) -> ast.Node:
        return ast.Like(parts[0], _unquote(parts[3]), True, _depth(parts[0]))

    def in_set(self, parts: list[Any]) -> ast.Node:
        return ast.In(parts[0], parts[2], False, _depth(parts[0], *parts[2]))

    def not_in_set(self, parts: list[Any]) -> ast.Node:
        return ast.In(parts[0], parts[3], True, _depth(parts[0], *parts[3]))

    def elements(self, parts: list[Any]) -> Any:
        return tuple(parts)

    def negation(self, parts: list[Any]) -> ast.Node:
        return ast.Not(parts[1], _depth(parts[1]))

    def minus(self, parts: list[Any]) -> ast.Node:
        return ast.Negate(parts[1], _depth(parts[1]))

    def call(self, parts: list[Any]) -> ast.Node:
        name, *arguments = parts
        return ast.Call(name.upper(), tuple(arguments), _depth(*arguments))

    def exists(self, parts: list[Any]) -> ast.Node:
        name = parts[1]
        if not name.isalnum():
            raise ParseError(f"{str(name)!r} is no name of an attribute", line=name.line, column=name.column)
        return ast.Exists(name.lower())

    def identifier(self, parts: list[Any]) -> ast.Node:
        return ast.Identifier(parts[0].lower())

    def integer(self, parts: list[Any]) -> ast.Node:
        token = parts[0]
        if len(token) > 20 or not INT_MIN <= int(token) <= INT_MAX:
            raise ParseError(f"the number {token:.20} has more than 32 bits", line=token.line, column=token.column)
        return ast.Literal(int(token))

    def boolean(self, parts: list[Any]) -> ast.Node:
        return ast.Literal(parts[0].lower() == "true")

    def string(self, parts: list[Any]) -> ast.Node:
        return ast.Literal(_unquote(parts[0]))


def _unquote(token: str) -> str:
    """The text of a string literal: only its own quotation mark is escaped; other backslashes stand for themselves."""
    quote = token[0]
    return _ESCAPED_QUOTES[quote].sub(quote, token[1:-1])


def _explain(expression: str, error: UnexpectedInput) -> ParseError:
    line, column, expected = error.line, error.column, _words(_accepted(error))
    match error:
        case UnexpectedCharacters():
            got = _word(expression, error.pos_in_stream or 0)
            if got in ("'", '"'):
                return ParseError("the string has no end", line=line, column=column)
        case UnexpectedToken(token=token) if token.type != "$END":
            got = str(token)
        case _:
            line, column = expression.count("\n") + 1, len(expression) - expression.rfind("\n")
            return ParseError("the expression ends too early", line=line, column=column, expected=expected)
    return ParseError(f"{got[:40]!r} does not belong here", line=line, column=column, expected=expected)


def _accepted(error: UnexpectedInput) -> set[str]:
    """The terminals with which the expression could have gone on."""
    state = getattr(error, "interactive_parser", None)
    return set(state.accepts()) if state is not None else set()


def _word(expression: str, position: int) -> str:
    found = re.compile(r"\w+|.", re.DOTALL).match(expression, position)
    return found[0] if found else ""


def _words(names: set[str]) -> tuple[str, ...]:
    words = []
    if names >= _OPERAND:
        words = ["an expression"]
        names = names - _OPERAND - {"INTEGER", "EXISTS", "NOT", "MINUS"}
    return tuple(dict.fromkeys([*words, *(_WORDS.get(name, name) for name in sorted(names))]))
