"""Expressions that do not parse: the place and what was expected there. And those that are large."""

from __future__ import annotations

import pytest

from headrace.core.cesql import ParseError, Value, check, compile, compile_tree, conjuncts, evaluate, is_true, parse


def problem(expression: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse(expression)
    return caught.value


@pytest.mark.parametrize(
    ("expression", "line", "column", "message", "expected"),
    [
        ("", 1, 1, "the expression ends too early", "an expression"),
        ("ABC(", 1, 5, "the expression ends too early", "')'"),
        ("1 +", 1, 4, "the expression ends too early", "an expression"),
        ("a\n  = = 3", 2, 5, "'=' does not belong here", "an expression"),
        ("a b", 1, 3, "'b' does not belong here", "a comparison"),
        ("a AND AND b", 1, 7, "'AND' does not belong here", "an expression"),
        ("x LIKE 123", 1, 8, "'123' does not belong here", "a string in quotation marks"),
        ("x LIKE y", 1, 8, "'y' does not belong here", "a string in quotation marks"),
        ("x IN 1", 1, 6, "'1' does not belong here", "'('"),
        ("x IN ()", 1, 7, "')' does not belong here", "an expression"),
        ("x IN (1,", 1, 9, "the expression ends too early", "an expression"),
        ("foo(1,)", 1, 7, "')' does not belong here", "an expression"),
        ("(1", 1, 3, "the expression ends too early", "')'"),
        ("1)", 1, 2, "')' does not belong here", "the end of the expression"),
        ("EXISTS 'x'", 1, 8, "does not belong here", "the name of an attribute"),
        ("EXISTS (x)", 1, 8, "'(' does not belong here", "the name of an attribute"),
        ("my_attribute = 1", 1, 1, "'my_attribute' does not belong here", "an expression"),
        ("é = 1", 1, 1, "'é' does not belong here", "an expression"),
        ("a = b ; c", 1, 7, "';' does not belong here", "the end of the expression"),
        ("and = 1", 1, 1, "'and' does not belong here", "an expression"),
        ("in(1)", 1, 1, "'in' does not belong here", "an expression"),
        ("f1(2)", 1, 3, "'(' does not belong here", "the end of the expression"),
        ("a = 'x\n y", 1, 5, "the string has no end", ""),
        ('a = "x', 1, 5, "the string has no end", ""),
        ("1 = 2147483648", 1, 5, "the number 2147483648 has more than 32 bits", ""),
        ("-2147483649", 1, 1, "the number -2147483649 has more than 32 bits", ""),
        ("9" * 10000, 1, 1, "has more than 32 bits", ""),
        ("EXISTS -1", 1, 8, "'-1' is no name of an attribute", ""),
    ],
)
def test_a_parse_error_tells_line_column_and_what_was_expected(
    expression: str, line: int, column: int, message: str, expected: str
) -> None:
    error = problem(expression)
    assert (error.line, error.column) == (line, column)
    assert message in error.message
    assert f"line {line}, column {column}" in str(error)
    assert expected in str(error)


def test_nesting_has_a_bound_and_parentheses_and_chains_do_not_count() -> None:
    assert evaluate("(" * 5000 + "1" + ")" * 5000, {}) == (1, None)
    assert evaluate(" OR ".join(["false"] * 5000), {}) == (False, None)
    assert evaluate("-" * 98 + "'1'", {}) == (1, None)
    assert "nested more than 100 deep" in problem("-" * 200 + "'1'").message
    assert "nested more than 100 deep" in problem("1+" * 200 + "1").message
    assert "nested more than 100 deep" in problem("CONCAT(" * 200 + ")" * 200).message


def test_the_length_has_a_bound() -> None:
    assert "longer than" in problem("'" + "a" * 70_000 + "'").message


def test_compiling_twice_costs_once() -> None:
    assert compile("word = 'x'") is compile("word = 'x'")


@pytest.mark.parametrize(
    "expression",
    ["NOFUNCTION(1)", "a = 1 AND NOT (LENGTH() < 2)", "x IN (1, FOO())", "-FOO(1)", "FOO() LIKE 'x'", "UPPER(FOO())"],
)
def test_a_function_that_does_not_exist_is_found_without_an_event(expression: str) -> None:
    assert "there is no function" in str(check(parse(expression)))


def test_a_sound_expression_has_nothing_to_find() -> None:
    assert check(parse("LENGTH(a) < 2 AND EXISTS b OR NOT (c LIKE '%') XOR -d IN (1, CONCAT())")) is None


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("type = 'a'", ["type = 'a'"]),
        ("a AND b AND c", ["a", "b", "c"]),
        ("(a AND b) AND (c AND d)", ["a", "b", "c", "d"]),
        ("a AND b OR c", ["a", "b OR c"]),
        ("a AND b AND c XOR d AND e", ["a", "b", "c XOR d AND e"]),
        ("a OR b AND c", ["a OR b AND c"]),
        ("(a OR b) AND c", ["a OR b", "c"]),
        ("NOT (a AND b)", ["NOT (a AND b)"]),
    ],
)
def test_the_parts_that_and_joins_are_seen(expression: str, parts: list[str]) -> None:
    assert conjuncts(parse(expression)) == tuple(parse(part) for part in parts)


@pytest.mark.parametrize("value", [True, False, "true", "false", "x", 1, 0, None])
@pytest.mark.parametrize("expression", ["a AND b", "a AND (b AND a)", "a AND b OR a", "a AND NOT b", "a AND b = TRUE"])
def test_an_expression_is_true_where_all_its_parts_are(expression: str, value: Value | None) -> None:
    for event in ({"a": True, "b": value}, {"a": value, "b": True}, {"a": value, "b": value}):
        known = {name: content for name, content in event.items() if content is not None}
        tree = parse(expression)
        parts = [compile_tree(is_true(part))(known) == (True, None) for part in conjuncts(tree)]
        assert all(parts) is (compile_tree(tree)(known) == (True, None))
