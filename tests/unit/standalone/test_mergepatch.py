"""JSON merge patch, and the three-way patch of `apply`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.standalone.mergepatch import merge, three_way

leaves = st.none() | st.integers(0, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 1), max_size=2)
values = st.recursive(leaves, lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3), max_leaves=8)
solid_leaves = st.integers(0, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 1), max_size=2)
objects = st.dictionaries(
    st.sampled_from("xyz"),
    st.recursive(solid_leaves, lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3), max_leaves=6),
    max_size=3,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        # The examples of RFC 7396, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_rfc_hold(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


@given(values, values)
def test_applying_a_patch_twice_changes_nothing_more(target: Any, patch: Any) -> None:
    once = merge(target, patch)
    assert merge(once, patch) == once


@given(objects, objects)
def test_applying_what_was_applied_before_then_something_else_gives_exactly_that(first: Any, second: Any) -> None:
    live = merge({}, three_way({}, first))
    assert merge(live, three_way(first, second)) == second


@given(objects, objects, st.dictionaries(st.just("controller"), st.integers(), min_size=1))
def test_what_others_wrote_is_left_alone(first: Any, second: Any, theirs: Any) -> None:
    live = merge({}, three_way({}, first)) | theirs
    assert merge(live, three_way(first, second)) == second | theirs
