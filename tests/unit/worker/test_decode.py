"""The short way from a frame to what is sent gives what the long way gives."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.base.errors import Terminal
from headrace.core.events.model import InvalidEvent
from headrace.core.frame import parse_frame
from headrace.dispatcher.worker import decode as module
from headrace.dispatcher.worker.decode import decode, decode_frame
from tests.support.frames import event_frame, frame

ATTRIBUTES = ("specversion", "id", "source", "type", "subject", "time", "note", "bad-name", "data", "datacontenttype", "seq")
NAMES = (*(f"ce_{name}" for name in ATTRIBUTES), "Ce_Note", "content-type", "traceparent", "baggage", "foreign")
VALUES = (
    *(
        b"1.0",
        b"0.3",
        b"2.0",
        b"",
        b"a b",
        b"50%",
        b'"q"',
        "\u00e9".encode(),
        b"\xff",
        b"\x00",
        b"application/json",
        b"x" * 300,
    ),
    *(b"application/cloudevents+json", b"plain", b"a\nb", b"text/plain; charset=x"),
)
names = st.sampled_from([*NAMES, ""])
values = st.none() | st.sampled_from(VALUES)
required: list[tuple[str, bytes | None]] = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"1"),
    ("ce_source", b"/s"),
    ("ce_type", b"t"),
]
headers = st.lists(st.tuples(names, values), max_size=6)


def outcome(raw: bytes, long: bool) -> object:
    try:
        made = decode_frame(parse_frame(raw)) if long else decode(raw)
    except InvalidEvent:
        return "invalid"
    return made._replace(lines=sorted(made.lines))


@given(headers, st.booleans(), st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=5))
@example([("traceparent", b"00-a"), ("ce_note", b"x")], True, b"d", None)
@example([("content-type", b'application/json; a="b c"')], True, b"d", None)
def test_both_ways_agree(extra: list[tuple[str, bytes | None]], whole: bool, value: bytes | None, key: bytes | None) -> None:
    raw = frame(3, 77, timestamp=5, key=key, headers=[*(required if whole else []), *extra], value=value)
    expected = outcome(raw, long=True)
    assert outcome(raw, long=False) == expected
    assert outcome(raw, long=False) == expected, "and again, with what was learnt"


def test_a_usual_event_goes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "parse_frame", None)
    made = decode(event_frame(1, 2, subject="s", time="2026-01-01T00:00:00Z", datacontenttype="application/json", seq="9"))
    decode(frame(0, 0, headers=[*required, ("traceparent", b"00-1-2-03")]))
    assert (made.partition, made.offset) == (1, 2)
    assert "ce-seq: 9" in made.lines


def test_what_is_learnt_is_bounded() -> None:
    for number in range(3000):
        headers = [*required, ("ce_subject", b"%d" % number), (f"ce_ext{number}", b"x")]
        decode(frame(0, number, headers=headers))
    assert len(module._roles) <= 256
    assert all(len(role.known or {}) <= 1024 for role in module._roles.values())


@given(st.integers(0, 150))
def test_a_frame_cut_anywhere_is_refused(length: int) -> None:
    whole = event_frame(0, 1, data=b"data")
    if length < len(whole):
        with pytest.raises(Terminal):
            decode(whole[:length])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(Terminal, match="frame"):
        decode(event_frame(0, 1) + b"x")
