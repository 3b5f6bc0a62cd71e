"""What CESQL expressions give: types, operators, functions, errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.cesql import Kind, Value, evaluate
from headrace.core.cesql.casts import INT_MAX, INT_MIN

EVENT: dict[str, Value] = {
    "specversion": "1.0",
    "id": "myId",
    "source": "https://example.com/s",
    "type": "com.example.made",
    "time": "2018-04-26T14:48:09+02:00",
    "hop": "5",
    "ttl": "10",
    "flag": "TRUE",
    "word": "abc",
    "number": 10,
    "boolean": True,
    "10abc": "digits first",
}


def gives(expression: str, result: Value, error: str | None = None) -> None:
    found, problem = evaluate(expression, EVENT)
    assert (type(found), found) == (type(result), result)
    assert (problem.kind.value if problem else None) == error


# Attributes and types


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("id", "myId"),
        ("ID", "myId"),
        ("source", "https://example.com/s"),
        ("time", "2018-04-26T14:48:09+02:00"),
        ("10abc", "digits first"),
        ("number", 10),
        ("boolean", True),
        ("hop", "5"),
    ],
)
def test_an_attribute_is_looked_up_by_its_lower_case_name(expression: str, result: Value) -> None:
    gives(expression, result)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("true", True),
        ("TRUE", True),
        ("tRuE", True),
        ("False", False),
        ("0", 0),
        ("007", 7),
        ("+5", 5),
        ("-5", -5),
        ("2147483647", INT_MAX),
        ("-2147483648", INT_MIN),
        ("'abc'", "abc"),
        ('"abc"', "abc"),
        ("''", ""),
        (r"'a\'b'", "a'b"),
        (r'"a\"b"', 'a"b'),
        ("'a\"b'", 'a"b'),
        ('"a\'b"', "a'b"),
        ("'it''s'", "it's"),
        ('"say ""x"""', 'say "x"'),
        (r"'a\b'", r"a\b"),
        ("'line\nbreak'", "line\nbreak"),
        ("'😀'", "😀"),
        (" \t\r\n1 ", 1),
        ("(((1)))", 1),
    ],
)
def test_literals(expression: str, result: Value) -> None:
    gives(expression, result)


# Operators


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("4 * 2 + 4 / 2", 10),
        ("4 * (2 + 4) / 2", 12),
        ("4-1", 3),
        ("4 -1", 3),
        ("4 - -1", 5),
        ("10 - 3 - 2", 5),
        ("100 / 10 / 5", 2),
        ("-4 + 1", -3),
        ("--10", 10),
        ("-'10'", -10),
        ("-TRUE", -1),
        ("- hop", -5),
        ("5 / 3", 1),
        ("-5 / 3", -1),
        ("5 / -3", -1),
        ("-5 / -3", 1),
        ("5 % 3", 2),
        ("-5 % 3", -2),
        ("5 % -3", 2),
        ("-5 % -3", -2),
        ("'5' + 3", 8),
        ("5 + TRUE", 6),
        ("hop * ttl", 50),
        ("2147483647 + 1", INT_MIN),
        ("-2147483648 - 1", INT_MAX),
        ("65536 * 65536", 0),
        ("-(-2147483648)", INT_MIN),
        ("-2147483648 / -1", INT_MIN),
        ("-2147483648 % -1", 0),
    ],
)
def test_arithmetic_truncates_toward_zero_and_wraps_at_32_bits(expression: str, result: Value) -> None:
    gives(expression, result)


@given(st.integers(INT_MIN, INT_MAX), st.integers(INT_MIN, INT_MAX).filter(bool))
def test_quotient_and_remainder_belong_together(left: int, right: int) -> None:
    quotient = evaluate(f"{left} / ({right})", {})[0]
    remainder = evaluate(f"{left} % ({right})", {})[0]
    assert isinstance(quotient, int)
    assert isinstance(remainder, int)
    if (left, right) != (INT_MIN, -1):
        assert quotient * right + remainder == left
    assert abs(remainder) < abs(right)
    assert remainder == 0 or (remainder < 0) == (left < 0)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 = 1", True),
        ("1 = 2", False),
        ("1 != 2", True),
        ("1 <> 2", True),
        ("2 <> 2", False),
        ("'a' = 'A'", False),
        ("TRUE = FALSE", False),
        ("1 < 2", True),
        ("2 <= 2", True),
        ("2 > 2", False),
        ("2 >= 3", False),
        ("hop < ttl", True),
        ("TRUE > FALSE", True),
        ("hop = 5", True),
        ("5 = hop", True),
        ("number = '10'", True),
        ("'010' = 10", True),
        ("10 = '010'", False),
        ("true = 'TRUE'", False),
        ("'TRUE' = true", True),
        ("flag = TRUE", True),
        ("1 = true", True),
        ("1 = 1 = true", True),
        ("word = 'abc'", True),
        ("word != 'abc'", False),
        ("number = word", False),
        ("boolean = 'true'", True),
    ],
)
def test_comparisons_and_equality_that_takes_the_type_of_its_right_side(expression: str, result: Value) -> None:
    gives(expression, result)


@pytest.mark.parametrize("operator", ["AND", "OR", "XOR"])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_logic(operator: str, left: bool, right: bool) -> None:
    wanted = {"AND": left and right, "OR": left or right, "XOR": left is not right}[operator]
    gives(f"{left} {operator} {right}", wanted)
    gives(f"'{left}' {operator.lower()} {int(right)}", wanted)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("false AND true OR true", False),
        ("(false AND true) OR true", True),
        ("true OR false AND false", True),
        ("true XOR true OR true", False),
        ("false XOR true AND false", False),
        ("NOT false AND false", False),
        ("NOT (false AND false)", True),
        ("NOT 'true' LIKE '%'", True),
        ("1 + 1 = 2 AND 2 * 2 = 4", True),
        ("1 < 2 = true", True),
        ("2 + 3 * 4", 14),
        ("-2 * 3", -6),
        ("'a' LIKE 'a' = true", True),
        ("1 IN (1) = true", True),
        ("2 * 3 IN (3)", 2),
        ("EXISTS word AND EXISTS id", True),
        ("NOT EXISTS word", False),
    ],
)
def test_precedence(expression: str, result: Value) -> None:
    gives(expression, result)


@given(st.lists(st.booleans(), min_size=2, max_size=8), st.data())
def test_a_chain_groups_to_the_right(values: list[bool], data: st.DataObject) -> None:
    operators = data.draw(st.lists(st.sampled_from(["AND", "OR", "XOR"]), min_size=len(values) - 1, max_size=len(values) - 1))
    wanted = values[-1]
    for left, operator in zip(reversed(values[:-1]), reversed(operators), strict=True):
        wanted = {"AND": left and wanted, "OR": left or wanted, "XOR": left is not wanted}[operator]
    text = str(values[0]) + "".join(f" {operator} {value}" for operator, value in zip(operators, values[1:], strict=True))
    assert evaluate(text, {}) == (wanted, None)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("false AND missing", False),
        ("true OR missing", True),
        ("false AND 1 / 0 = 1", False),
        ("true OR NOFUNCTION()", True),
    ],
)
def test_what_and_and_or_do_not_need_is_not_evaluated(expression: str, result: Value) -> None:
    gives(expression, result)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("'abc' LIKE 'abc'", True),
        ("'abc' LIKE 'ab'", False),
        ("'abc' like 'A%'", False),
        ("'abc' LIKE 'a%'", True),
        ("'abc' LIKE '%c'", True),
        ("'abc' LIKE '%b%'", True),
        ("'abc' LIKE '%'", True),
        ("'' LIKE '%'", True),
        ("'' LIKE '_'", False),
        ("'abc' LIKE 'a_c'", True),
        ("'abc' LIKE '__'", False),
        ("'a%c' LIKE 'a\\%c'", True),
        ("'abc' LIKE 'a\\%c'", False),
        ("'a_c' LIKE 'a\\_c'", True),
        ("'abc' LIKE 'a\\_c'", False),
        ("'a\\b' LIKE 'a\\b'", True),
        ("'a.c' LIKE 'a.c'", True),
        ("'abc' LIKE 'a.c'", False),
        ("'a\nb' LIKE 'a%'", True),
        ("'a\nb' LIKE 'a_b'", True),
        ("'a\n' LIKE 'a'", False),
        ("'aab' LIKE '%ab'", True),
        ("'abab' LIKE '%ab%ab'", True),
        ("'aba' LIKE '%ab%ba'", False),
        ("'😀' LIKE '_'", True),
        ("'abc' NOT LIKE 'abc'", False),
        ("'abc' NOT LIKE 'x%'", True),
        ("234 LIKE '23_'", True),
        ("TRUE LIKE 'tr%'", True),
        ('word LIKE "a%"', True),
    ],
)
def test_like_matches_the_whole_text(expression: str, result: Value) -> None:
    gives(expression, result)


def test_no_pattern_takes_long() -> None:
    gives(f"'{'a' * 3000}b' LIKE '{'%a' * 50}%c'", False)
    gives(f"'{'a' * 3000}' LIKE '{'%_' * 100}%x%'", False)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("EXISTS id", True),
        ("exists SOURCE", True),
        ("EXISTS missing", False),
        ("EXISTS word", True),
        ("EXISTS 10abc", True),
    ],
)
def test_exists(expression: str, result: Value) -> None:
    gives(expression, result)


def test_required_attributes_always_exist() -> None:
    for name in ("specversion", "id", "source", "type"):
        assert evaluate(f"EXISTS {name}", {}) == (True, None)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("123 IN (1, 2, 123)", True),
        ("123 IN (1, 2)", False),
        ("123 NOT IN (1, 2)", True),
        ("'abc' IN ('abc', \"bcd\")", True),
        ("'ABC' IN ('abc')", False),
        ("TRUE IN (FALSE, 'true')", True),
        ("FALSE IN (1)", False),
        ("'123' IN (1, 123)", True),
        ("123 IN ('0123')", True),
        ("'0123' IN (123)", False),
        ("'true' IN (TRUE)", True),
        ("word IN ('x', 'abc')", True),
        ("word NOT IN ('x', 'abc')", False),
        ("word IN (id, word)", True),
        ("number IN ('10')", True),
        ("hop IN (4 + 1)", True),
        ("1 IN (TRUE)", True),
    ],
)
def test_in_gives_its_elements_the_type_of_its_left_side(expression: str, result: Value) -> None:
    gives(expression, result)


# Functions


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("LENGTH('abc')", 3),
        ("length('')", 0),
        ("LENGTH('😀')", 1),
        ("LENGTH(TRUE)", 4),
        ("CONCAT()", ""),
        ("CONCAT('a', 1, TRUE)", "a1true"),
        ("CONCAT_WS(',')", ""),
        ("concat_ws(',', 'a', 2)", "a,2"),
        ("LOWER('AbÉ')", "abé"),
        ("UPPER('abé')", "ABÉ"),
        ("TRIM('  a b\t')", "a b"),
        ("TRIM('\u2003a\u3000')", "a"),
        ("TRIM('\x1ca')", "\x1ca"),
        ("LEFT('abc', 2)", "ab"),
        ("LEFT('abc', 10)", "abc"),
        ("LEFT('abc', 0)", ""),
        ("RIGHT('abc', 2)", "bc"),
        ("RIGHT('abc', 10)", "abc"),
        ("RIGHT('abc', 0)", ""),
        ("SUBSTRING('abcdef', 2)", "bcdef"),
        ("SUBSTRING('Sakila', -3)", "ila"),
        ("SUBSTRING('abcdef', 2, 4)", "bcde"),
        ("SUBSTRING('Sakila', -5, 3)", "aki"),
        ("SUBSTRING('abc', 0)", ""),
        ("SUBSTRING('abc', 0, 2)", ""),
        ("SUBSTRING('abc', 2, 100)", "bc"),
        ("SUBSTRING('abc', 3, 0)", ""),
        ("SUBSTRING('', 0)", ""),
        ("SUBSTRING(12345, '2', 2)", "23"),
        ("ABS(-10)", 10),
        ("ABS('7')", 7),
        ("INT('-1')", -1),
        ("INT('+1')", 1),
        ("INT(TRUE)", 1),
        ("INT(hop) + 1", 6),
        ("BOOL('TrUe')", True),
        ("BOOL(0)", False),
        ("BOOL(-50)", True),
        ("STRING(TRUE)", "true"),
        ("STRING(-1)", "-1"),
        ("IS_INT('12')", True),
        ("IS_INT('abc')", False),
        ("IS_INT('2147483648')", False),
        ("IS_INT(TRUE)", True),
        ("IS_BOOL('false')", True),
        ("IS_BOOL('yes')", False),
        ("IS_BOOL(3)", True),
        ("LENGTH (word)", 3),
        ("UPPER(LEFT(word, 1)) = 'A'", True),
    ],
)
def test_functions(expression: str, result: Value) -> None:
    gives(expression, result)


# Errors


@pytest.mark.parametrize(
    ("expression", "result", "error"),
    [
        # casts
        ("INT('ABC')", 0, "cast"),
        ("INT('')", 0, "cast"),
        ("INT('1.0')", 0, "cast"),
        ("INT('٣')", 0, "cast"),
        ("INT('2147483648')", 0, "cast"),
        ("INT('99999999999999999999999')", 0, "cast"),
        ("BOOL('ABC')", False, "cast"),
        ("word + 1", 0, "cast"),
        ("-word", 0, "cast"),
        ("word < 1", False, "cast"),
        ("word = 1", False, "cast"),
        ("word != 1", False, "cast"),
        ("word = TRUE", False, "cast"),
        ("word AND TRUE", False, "cast"),
        ("FALSE OR word", False, "cast"),
        ("TRUE XOR word", False, "cast"),
        ("NOT word", False, "cast"),
        ("NOT 10", True, "cast"),
        ("1 IN ('abc')", False, "cast"),
        ("1 NOT IN ('abc')", False, "cast"),
        ("ABS('abc')", 0, "cast"),
        ("LEFT('abc', 'x')", "", "cast"),
        # arithmetic
        ("5 / 0", 0, "math"),
        ("5 % 0", 0, "math"),
        ("ABS(-2147483648)", INT_MAX, "math"),
        ("ABS(-2147483648) + 1", 0, "math"),
        ("5 / 0 = 0", False, "math"),
        ("true and (1 != 1 / 0)", False, "math"),
        ("false or (1 != 1 / 0)", False, "math"),
        # functions
        ("LEFT('abc', -2)", "abc", "functionEvaluation"),
        ("RIGHT('abc', -2)", "abc", "functionEvaluation"),
        ("(LEFT('abc', -2))", "abc", "functionEvaluation"),
        ("CONCAT(LEFT('abc', -2), 'x')", "", "functionEvaluation"),
        ("LEFT('abc', -2) = 'abc'", False, "functionEvaluation"),
        ("SUBSTRING('abc', 4)", "", "functionEvaluation"),
        ("SUBSTRING('abc', -4)", "", "functionEvaluation"),
        ("SUBSTRING('abc', 4, 1)", "", "functionEvaluation"),
        ("SUBSTRING('abc', 1, -1)", "", "functionEvaluation"),
        ("SUBSTRING('', 1)", "", "functionEvaluation"),
        ("NOFUNCTION()", False, "missingFunction"),
        ("CONCAT_WS()", False, "missingFunction"),
        ("LENGTH('a', 'b')", False, "missingFunction"),
        ("LENGTH()", False, "missingFunction"),
        ("1 + NOFUNCTION()", 0, "missingFunction"),
        # missing attributes
        ("missing", False, "missingAttribute"),
        ("missing = 2", False, "missingAttribute"),
        ("missing != 2", False, "missingAttribute"),
        ("missing != 'x'", False, "missingAttribute"),
        ("missing <> 2", False, "missingAttribute"),
        ("2 = missing", False, "missingAttribute"),
        ("missing <= 2", False, "missingAttribute"),
        ("missing * 5", 0, "missingAttribute"),
        ("missing / 0", 0, "missingAttribute"),
        ("1 / missing", 0, "missingAttribute"),
        ("-missing", 0, "missingAttribute"),
        ("NOT missing", False, "missingAttribute"),
        ("missing LIKE 'x'", False, "missingAttribute"),
        ("missing NOT LIKE 'x'", False, "missingAttribute"),
        ("missing IN ('x')", False, "missingAttribute"),
        ("missing NOT IN ('x')", False, "missingAttribute"),
        ("word IN (missing)", False, "missingAttribute"),
        ("word IN ('abc', missing)", False, "missingAttribute"),
        ("UPPER(missing)", "", "missingAttribute"),
        ("LENGTH(missing)", 0, "missingAttribute"),
        ("BOOL(missing)", False, "missingAttribute"),
        ('true AND (missing = "")', False, "missingAttribute"),
        ("missing OR true", False, "missingAttribute"),
        # parsing
        ("ABC(", False, "parse"),
        ("word LIKE 123", False, "parse"),
        ("", False, "parse"),
    ],
)
def test_an_error_comes_with_the_value_that_the_rules_leave(expression: str, result: Value, error: str) -> None:
    gives(expression, result, error)


def test_an_error_says_what_is_wrong() -> None:
    _, error = evaluate("INT(word) = 1", EVENT)
    assert error is not None
    assert (error.kind, error.message) == (Kind.CAST, "'abc' is no Integer")
    _, error = evaluate("nothere = 'x'", EVENT)
    assert error is not None
    assert error.message == "the event has no attribute nothere"


def test_the_kinds_have_the_kits_names() -> None:
    names = ["parse", "math", "cast", "missingFunction", "functionEvaluation", "missingAttribute", "generic"]
    assert [kind.value for kind in Kind] == names


def test_evaluating_changes_no_event() -> None:
    before = dict(EVENT)
    for expression in ("id = 'x'", "missing", "1 / 0", "CONCAT(id, word)"):
        evaluate(expression, EVENT)
    assert before == EVENT
