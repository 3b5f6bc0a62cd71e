from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.resources.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("PT0.2S", 200),
        ("PT0,2S", 200),
        ("PT1S", 1_000),
        ("PT1M30S", 90_000),
        ("PT168H", 604_800_000),
        ("P7D", 604_800_000),
        ("P1W", 604_800_000),
        ("P1DT12H", 129_600_000),
        ("PT0.0005S", 0),
        ("PT0.0015S", 2),
        ("-PT5S", -5_000),
        ("+PT5S", 5_000),
        ("P1Y", 31_556_952_000),
        ("P1M", 2_629_746_000),
    ],
)
def test_a_duration_is_so_many_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "1S",
        "PT1",
        "PT1S2M",
        "PTS",
        "PT-1S",
        "PT1.S",
        "pt1s",
        "PT1e3S",
        "PT" + "9" * 70 + "S",
        "P9999999999Y",
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_what_is_written_is_read_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "PT0S"), (200, "PT0.2S"), (90_000, "PT1M30S"), (604_800_000, "P7D"), (-5_001, "-PT5.001S")]
)
def test_the_shortest_form_is_written(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text
