from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.resources.timestamps import format_time, parse_time


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.25Z", 250),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:00:00-05:00", 0),
        ("1970-01-01t00:00:01z", 1_000),
        ("1970-01-01T00:00:00.123456789Z", 123),
        ("2016-12-31T23:59:60Z", 1_483_228_799_000),
    ],
)
def test_a_time_is_so_many_milliseconds_after_1970(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T10:00:00",
        "2026-01-31 10:00:00Z",
        "2026-02-30T10:00:00Z",
        "2026-01-31T25:00:00Z",
        "2026-01-31T10:00:00+25:00",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"RFC 3339|no such"):
        parse_time(text)


@given(st.integers(min_value=0, max_value=4_000_000_000))
def test_what_is_written_is_read_back(seconds: int) -> None:
    assert parse_time(format_time(seconds)) == seconds * 1000
