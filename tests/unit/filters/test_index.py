"""The index against asking each filter by itself, while lanes come, change and go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import filters as public
from headrace.core.contract import Egress
from headrace.core.filters import FilterIndex, InvalidFilter, Predicate, compile_egress, paths

NAMES = ("type", "source", "subject", "ext", "dataschema", "schemaurl")
VALUES = ("a", "ab", "abc", "b", "ba", "cab")

names = st.sampled_from(NAMES)
values = st.sampled_from(VALUES)
pairs = st.dictionaries(names, values, min_size=1, max_size=2).map(lambda found: {"attributes": found})
expressions = st.sampled_from(
    [
        "type = 'a'",
        "type = 'a' AND source = 'b'",
        "type IN ('a', 'ab') AND subject LIKE 'a%'",
        "type = 'a' AND type = 'b'",
        "type = ''",
        "type = 'a' AND (source LIKE 'a%' AND subject LIKE '%b')",
        "source LIKE 'a%' AND NOT (type = 'a') OR EXISTS ext",
        "type LIKE 'a_%' AND source IN ('a', 'b', '')",
        "dataschema = 'a' AND schemaurl LIKE 'a%'",
        "ext AND type = 'a'",
        "type NOT LIKE 'a%' AND type NOT IN ('b')",
        "EXISTS ext OR type = 'b'",
        "ext = 'a' XOR type = 'a'",
        "LENGTH(type) = 2",
        "type",
    ]
)
dialects: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.one_of(
        st.builds(dict, exact=pairs),
        st.builds(dict, prefix=pairs),
        st.builds(dict, suffix=pairs),
        st.builds(dict, cesql=expressions.map(lambda text: {"expression": text})),
    ),
    lambda inner: st.one_of(
        st.builds(dict, all=st.lists(inner, min_size=1, max_size=3).map(lambda found: {"filters": found})),
        st.builds(dict, any=st.lists(inner, min_size=1, max_size=3).map(lambda found: {"filters": found})),
        inner.map(lambda found: {"not": {"filter": found}}),
    ),
    max_leaves=6,
)
egresses = st.one_of(
    st.lists(dialects, max_size=3).map(lambda found: Egress(dialected_filter=tuple(found))),
    st.dictionaries(names, st.sampled_from((*VALUES, "")), max_size=2).map(lambda found: Egress(filter={"attributes": found})),
)
events = st.fixed_dictionaries({"type": values, "source": values}, optional=dict.fromkeys(NAMES[2:], values))
changes = st.lists(st.tuples(st.integers(0, 7), st.none() | egresses), max_size=14)


def naive(lanes: dict[int, Egress], event: dict[str, str]) -> list[int]:
    return sorted(lane for lane, egress in lanes.items() if compile_egress(egress)(event))


@given(changes, st.lists(events, min_size=1, max_size=4))
def test_the_index_answers_as_each_filter_does(changes: list[tuple[int, Egress | None]], events: list[dict[str, str]]) -> None:
    index: FilterIndex[int] = FilterIndex()
    lanes: dict[int, Egress] = {}
    for lane, egress in changes:
        if egress is None:
            index.remove(lane)
            lanes.pop(lane, None)
        else:
            index.add(lane, egress)
            lanes[lane] = egress
        for event in events:
            assert sorted(index.match(event)) == naive(lanes, event)
    assert len(index) == len(lanes)
    for lane in list(lanes):
        index.remove(lane)
    assert index._root.is_empty
    assert not index._shared


def egress(*filters: dict[str, Any]) -> Egress:
    return Egress(dialected_filter=tuple(public.to_contract(item) for item in public.parse_trigger_filters(list(filters))))


class Counter:
    """Counts how often conditions are asked that can't be looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.compiled = 0
        original = paths.compile_condition

        def counting(condition: paths.Condition) -> Predicate:
            accepts = original(condition)
            self.compiled += 1

            def ask(attributes: Any) -> bool:
                self.asked += 1
                return accepts(attributes)

            return ask

        monkeypatch.setattr("headrace.core.filters.index.compile_condition", counting)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


EVENT = {"specversion": "1.0", "id": "1", "type": "t7", "source": "/s7", "subject": "x"}


@pytest.mark.parametrize(
    "make",
    [
        lambda n: egress({"exact": {"type": f"t{n}"}}),
        lambda n: egress({"exact": {"source": f"/s{n}"}}),
        lambda n: egress({"exact": {"type": "t7", "source": f"/s{n}"}}),
        lambda n: (
            egress({"exact": {"ext": "no"}}, {"exact": {"type": f"t{n}"}}) if n != 7 else egress({"exact": {"type": "t7"}})
        ),
        lambda n: egress({"all": [{"exact": {"type": f"t{n}"}}, {"all": [{"exact": {"source": f"/s{n}"}}]}]}),
        lambda n: egress({"any": [{"exact": {"type": f"t{n}"}}, {"exact": {"type": f"u{n}"}}]}),
        lambda n: egress({"suffix": {"type": f"t{n}"}}),
        lambda n: egress({"prefix": {"source": f"/s{n}"}}) if n != 70 else egress({"exact": {"type": "x"}}),
        lambda n: Egress(filter={"attributes": {"type": f"t{n}"}}),
        lambda n: Egress(filter={"attributes": {"type": f"t{n}", "source": f"/s{n}"}}),
    ],
)
def test_what_can_be_looked_up_is_not_asked_however_many_lanes_there_are(make: Any, counter: Counter) -> None:
    index = FilterIndex((n, make(n)) for n in range(1000))
    assert index.match(EVENT) == [7]
    assert counter.asked == 0


def test_the_parts_of_an_expression_that_can_be_looked_up_are(counter: Counter) -> None:
    index = FilterIndex((n, egress({"cesql": f"type = 't{n}' AND source LIKE '/s%' AND EXISTS subject"})) for n in range(200))
    assert index.match(EVENT) == [7]
    assert counter.asked == 1


def test_the_parts_that_expressions_share_are_asked_once(counter: Counter) -> None:
    index = FilterIndex((n, egress({"cesql": f"LENGTH(subject) = 1 AND type IN ('t{n}', 'u{n}')"})) for n in range(200))
    assert index.match(EVENT) == [7]
    assert (counter.asked, counter.compiled) == (1, 1)


def test_a_condition_of_many_lanes_is_compiled_and_asked_once(counter: Counter) -> None:
    shared = {"not": {"exact": {"subject": "y"}}}
    index = FilterIndex((n, egress(shared, {"exact": {"type": "t7"}})) for n in range(500))
    for n in range(500, 1000):
        index.add(n, egress(shared, {"prefix": {"source": "/"}}))
    assert sorted(index.match(EVENT)) == list(range(1000))
    assert (counter.asked, counter.compiled) == (1, 1)


def test_a_lane_that_several_alternatives_lead_to_is_found_once() -> None:
    index = FilterIndex([("x", egress({"any": [{"exact": {"type": "t7"}}, {"prefix": {"source": "/"}}]}))])
    assert index.match(EVENT) == ["x"]


def test_too_many_alternatives_are_asked_and_right_all_the_same(counter: Counter) -> None:
    many = {"any": [{"exact": {"type": f"t{n}"}} for n in range(100)]}
    few = {"any": [{"exact": {"source": f"/s{n}"}} for n in range(10)]}
    index = FilterIndex([("x", egress(many, few, few, many)), ("y", egress({"any": [many, few]}))])
    assert sorted(index.match(EVENT)) == ["x", "y"]
    assert index.match({**EVENT, "type": "z", "source": "z"}) == []
    assert counter.asked > 0


def test_contradicting_filters_match_nothing_and_can_be_removed() -> None:
    index = FilterIndex([("x", egress({"exact": {"type": "a"}}, {"exact": {"type": "b"}}))])
    assert index.match({**EVENT, "type": "a"}) == []
    assert "x" in index
    index.remove("x")
    assert "x" not in index


def test_a_changed_lane_answers_by_its_new_filter_only() -> None:
    index = FilterIndex([("x", egress({"exact": {"type": "t7"}}))])
    index.add("x", egress({"exact": {"type": "t8"}}))
    assert index.match(EVENT) == []
    assert index.match({**EVENT, "type": "t8"}) == ["x"]


def test_a_refused_filter_leaves_the_old_one_in_force() -> None:
    index = FilterIndex([("x", egress({"exact": {"type": "t7"}}))])
    with pytest.raises(InvalidFilter):
        index.add("x", Egress(dialected_filter=({"sql": {}},)))
    assert index.match(EVENT) == ["x"]


def test_no_filter_takes_every_event() -> None:
    assert FilterIndex([("x", Egress())]).match({}) == ["x"]
