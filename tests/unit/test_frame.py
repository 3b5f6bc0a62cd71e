"""The parser of frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import Terminal
from headrace.core.frame import Frame, parse_frame
from tests.support.frames import frame

nullable = st.none() | st.binary(max_size=20)


@given(
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**62),
    nullable,
    st.lists(st.tuples(st.text(max_size=8), nullable), max_size=5),
    nullable,
)
def test_a_record_comes_out_as_it_went_in(
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    value: bytes | None,
) -> None:
    made = frame(partition, offset, timestamp=timestamp, key=key, headers=headers, value=value)
    assert parse_frame(made) == Frame(partition, offset, timestamp, key, [(n.encode(), v) for n, v in headers], value)


@given(st.integers(0, 200))
def test_a_frame_cut_anywhere_is_refused(length: int) -> None:
    whole = frame(1, 2, key=b"k", headers=[("a", b"x"), ("b", None)], value=b"data")
    if length < len(whole):
        with pytest.raises(Terminal, match="frame"):
            parse_frame(whole[:length])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(Terminal, match="frame"):
        parse_frame(frame(1, 2, value=None) + b"x")


@given(st.binary(max_size=80))
def test_any_bytes_either_parse_or_are_refused(junk: bytes) -> None:
    try:
        parse_frame(junk)
    except Terminal:
        pass
