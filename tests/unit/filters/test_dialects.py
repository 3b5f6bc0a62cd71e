"""Filter dialects in both written forms: what they mean, what is refused, and which filter decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.core.contract import Egress
from headrace.core.filters import (
    InvalidFilter,
    compile_egress,
    compile_filters,
    explain,
    explain_egress,
    filters_of_egress,
    parse_trigger_filters,
    to_contract,
)

EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/orders/eu",
    "type": "com.example.order.made",
    "subject": "o-7",
    "empty": "",
    "number": "10",
}
Filters = list[dict[str, Any]]


def accepts(filters: Filters, event: Mapping[str, str] = EVENT) -> bool:
    """Whether a Trigger with these filters takes the event: asked in both written forms."""
    parsed = parse_trigger_filters(filters)
    egress = Egress(dialected_filter=tuple(to_contract(item) for item in parsed))
    assert filters_of_egress(egress) == parsed
    answer = compile_egress(egress)(event)
    assert compile_filters(parsed)(event) is answer
    assert explain(parsed, event).accepted is answer
    return answer


@pytest.mark.parametrize(
    ("filters", "accepted"),
    [
        ([], True),
        ([{"exact": {"type": "com.example.order.made"}}], True),
        ([{"exact": {"type": "com.example.ORDER.made"}}], False),
        ([{"exact": {"type": "com.example.order.made", "source": "/orders/eu"}}], True),
        ([{"exact": {"type": "com.example.order.made", "source": "/orders/us"}}], False),
        ([{"prefix": {"type": "com.example."}}], True),
        ([{"prefix": {"type": "com.example.order.made"}}], True),
        ([{"prefix": {"type": "Com"}}], False),
        ([{"prefix": {"type": "com.", "source": "/x"}}], False),
        ([{"suffix": {"type": ".made"}}], True),
        ([{"suffix": {"type": ".Made"}}], False),
        ([{"suffix": {"source": "eu", "type": "made"}}], True),
        ([{"not": {"exact": {"subject": "x"}}}], True),
        ([{"not": {"not": {"exact": {"subject": "x"}}}}], False),
        ([{"all": [{"exact": {"subject": "o-7"}}, {"prefix": {"source": "/orders"}}]}], True),
        ([{"all": [{"exact": {"subject": "o-7"}}, {"prefix": {"source": "/x"}}]}], False),
        ([{"any": [{"exact": {"subject": "x"}}, {"prefix": {"source": "/orders"}}]}], True),
        ([{"any": [{"exact": {"subject": "x"}}, {"prefix": {"source": "/x"}}]}], False),
        ([{"all": [{"exact": {"subject": "o-7"}}]}], True),
        ([{"any": [{"exact": {"subject": "x"}}]}], False),
        ([{"cesql": "type LIKE 'com.example.%' AND EXISTS subject"}], True),
        ([{"cesql": "subject = 'x'"}], False),
        ([{"exact": {"subject": "o-7"}}, {"suffix": {"source": "eu"}}], True),
        ([{"exact": {"subject": "o-7"}}, {"suffix": {"source": "us"}}], False),
    ],
)
def test_a_filter_means_what_the_specification_says(filters: Filters, accepted: bool) -> None:
    assert accepts(filters) is accepted


@pytest.mark.parametrize("dialect", ["exact", "prefix", "suffix"])
@pytest.mark.parametrize("name", ["missing", "datacontenttype", "time"])
def test_an_absent_attribute_fits_no_value_and_so_its_opposite_is_true(dialect: str, name: str) -> None:
    assert not accepts([{dialect: {name: "x"}}])
    assert accepts([{"not": {dialect: {name: "x"}}}])
    assert accepts([{"any": [{dialect: {name: "x"}}, {"exact": {"id": "1"}}]}])


@pytest.mark.parametrize(
    "expression",
    ["missing = 'x'", "missing != 'x'", "NOT missing", "'true'", "1", "number", "number = 'x' OR missing", "subject AND true"],
)
def test_cesql_passes_for_nothing_but_true_without_error(expression: str) -> None:
    assert not accepts([{"cesql": expression}])


def test_the_schema_is_one_attribute_under_both_its_names() -> None:
    for name in ("dataschema", "schemaurl"):
        for filters in ([{"exact": {name: "/x"}}], [{"prefix": {name: "/"}}], [{"suffix": {name: "x"}}]):
            assert accepts(filters, {**EVENT, "dataschema": "/x"})
            assert accepts(filters, {**EVENT, "schemaurl": "/x"})
            assert not accepts(filters)


def attribute_filter(attributes: dict[str, str]) -> Egress:
    return Egress(filter={"attributes": attributes})


@pytest.mark.spec("CP-X9")
@pytest.mark.parametrize(
    ("attributes", "accepted"),
    [
        ({}, True),
        ({"type": "com.example.order.made"}, True),
        ({"type": "com.example.order.MADE"}, False),
        ({"type": "com.example.order.made", "source": "/x"}, False),
        ({"subject": ""}, True),
        ({"empty": ""}, True),
        ({"missing": ""}, False),
        ({"missing": "x"}, False),
        ({"type": "com.example.order.made", "missing": ""}, False),
    ],
)
def test_the_attribute_filter_wants_presence_and_equality_where_it_names_a_value(
    attributes: dict[str, str], accepted: bool
) -> None:
    egress = attribute_filter(attributes)
    assert compile_egress(egress)(EVENT) is accepted
    assert explain_egress(egress, EVENT).accepted is accepted
    assert compile_filters(parse_trigger_filters(None, {"attributes": attributes}))(EVENT) is accepted


def test_filters_override_the_attribute_filter_unless_they_are_empty() -> None:
    egress = Egress(filter={"attributes": {"type": "x"}}, dialected_filter=({"exact": {"attributes": {"id": "1"}}},))
    assert compile_egress(egress)(EVENT)
    assert not compile_filters(parse_trigger_filters([], {"attributes": {"type": "x"}}))(EVENT)
    assert compile_filters(parse_trigger_filters([{"exact": {"id": "1"}}], {"attributes": {"type": "x"}}))(EVENT)


DEEP: dict[str, Any] = {"exact": {"id": "1"}}
for _ in range(40):
    DEEP = {"not": DEEP}


@pytest.mark.parametrize(
    ("filters", "subject", "message"),
    [
        ([{}], "spec.filters[0]", "no dialect"),
        ([{"sql": "x"}], "spec.filters[0]", "unknown dialect 'sql'"),
        ([{"exact": {"id": "1"}, "prefix": {"id": "1"}}], "spec.filters[0]", "multiple dialects found"),
        ([{"exact": {"id": "1"}}, {"exact": {}}], "spec.filters[1].exact", "at least one attribute"),
        ([{"exact": {"id": ""}}], "spec.filters[0].exact.id", "must not be empty"),
        ([{"exact": {"id": 1}}], "spec.filters[0].exact.id", "a string"),
        ([{"exact": {"my-ext": "1"}}], "spec.filters[0].exact.my-ext", "lowercase alphanumeric"),
        ([{"exact": {"1ext": "1"}}], "spec.filters[0].exact.1ext", "start with a letter"),
        ([{"exact": {"Type": "1"}}], "spec.filters[0].exact.Type", "lowercase"),
        ([{"exact": "x"}], "spec.filters[0].exact", "an object"),
        ([{"all": []}], "spec.filters[0].all", "at least one filter"),
        ([{"any": {"exact": {"id": "1"}}}], "spec.filters[0].any", "a list"),
        ([{"any": [{"exact": {"id": "1"}}, {"no": {}}]}], "spec.filters[0].any[1]", "unknown dialect"),
        ([{"not": {"suffix": {"id": ""}}}], "spec.filters[0].not.suffix.id", "must not be empty"),
        ([{"not": []}], "spec.filters[0].not", "an object"),
        ([{"cesql": ""}], "spec.filters[0].cesql", "line 1, column 1"),
        ([{"cesql": "type ="}], "spec.filters[0].cesql", "line 1, column 7: the expression ends too early"),
        ([{"cesql": {"expression": "true"}}], "spec.filters[0].cesql", "a CESQL expression"),
        ([{"cesql": "KN_VERIFY(type)"}], "spec.filters[0].cesql", "there is no function KN_VERIFY of 1 arguments"),
        (["x"], "spec.filters[0]", "an object with one dialect"),
        ([DEEP], None, "nested more than"),
    ],
)
def test_a_filter_that_is_wrong_is_refused_with_its_path(filters: list[Any], subject: str | None, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        parse_trigger_filters(filters)
    if subject is not None:
        assert caught.value.subject == subject


def test_a_parse_error_keeps_what_was_expected() -> None:
    with pytest.raises(InvalidFilter, match="Expected an expression"):
        parse_trigger_filters([{"cesql": "type ="}])


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        ({"sql": {"expression": "true"}}, "dialectedFilter[0]"),
        ({}, "dialectedFilter[0]"),
        ({"exact": {}}, "dialectedFilter[0].exact"),
        ({"all": {}}, "dialectedFilter[0].all"),
        ({"not": {}}, "dialectedFilter[0].not"),
        ({"any": {"filters": [{"cesql": {"expression": "("}}]}}, "dialectedFilter[0].any[0].cesql"),
        ({"prefix": {"attributes": {"A": "x"}}}, "dialectedFilter[0].prefix.A"),
    ],
)
def test_a_contract_with_a_wrong_filter_is_refused_with_its_path(raw: dict[str, Any], subject: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        compile_egress(Egress(dialected_filter=(raw,)))
    assert caught.value.subject == subject


def test_a_name_that_starts_with_a_digit_is_taken_from_a_contract() -> None:
    assert compile_egress(Egress(dialected_filter=({"exact": {"attributes": {"1ext": "x"}}},)))({**EVENT, "1ext": "x"})


@pytest.mark.parametrize(
    ("filters", "path", "reason"),
    [
        ([], "", "no filter"),
        ([{"exact": {"id": "1", "type": "x"}}], "filters[0].exact.type", "type is 'com.example.order.made', wanted 'x'"),
        ([{"exact": {"id": "1"}}, {"prefix": {"missing": "x"}}], "filters[1].prefix.missing", "missing is absent"),
        ([{"suffix": {"source": "eu"}}], "filters[0].suffix.source", "ends with 'eu'"),
        ([{"all": [{"exact": {"id": "1"}}, {"exact": {"id": "2"}}]}], "filters[0].all[1].exact.id", "wanted '2'"),
        ([{"any": [{"exact": {"id": "2"}}, {"exact": {"id": "1"}}]}], "filters[0].any[1].exact.id", "wanted '1'"),
        ([{"any": [{"exact": {"id": "2"}}]}], "filters[0].any", "none of its filters"),
        ([{"not": {"exact": {"id": "1"}}}], "filters[0].not", "filters[0].not.exact.id: id is '1'"),
        ([{"cesql": "missing = 'x'"}], "filters[0].cesql", "missingAttribute"),
        ([{"cesql": "1 + 1"}], "filters[0].cesql", "gives 2"),
    ],
)
def test_the_filter_that_decided_is_named(filters: Filters, path: str, reason: str) -> None:
    decided = explain(parse_trigger_filters(filters), EVENT)
    assert decided.path == path
    assert reason in decided.reason
    assert decided.accepted is accepts(filters)


def test_the_attribute_filter_is_named_too() -> None:
    decided = explain_egress(attribute_filter({"missing": ""}), EVENT)
    assert (decided.path, decided.reason) == ("filter.attributes.missing", "missing is absent, wanted any value")
    with pytest.raises(ValueError, match="no dialect"):
        to_contract(filters_of_egress(attribute_filter({"id": "1"}))[0])
