"""The hot path's reading of a request against the general one: where it gives a record, it gives the same."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.contract import ContentMode
from headrace.core.events.http import decode_request
from headrace.core.events.kafka import encode_record
from headrace.core.events.model import InvalidEvent
from headrace.receiver import binary
from headrace.receiver.binary import to_record

GOOD = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
HEADER_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.just("\t"), max_size=12)
"""What a header value may hold when it gets here."""
VALUES = HEADER_TEXT | st.sampled_from(
    ["", "1.0", "0.3", "2.0", "/s", "urn:x", "a b", "%20", "%", '"q"', "2026-02-03T04:05:06Z", "2026-02-30T00:00:00Z"]
)
TYPES = st.sampled_from(
    ["application/json", "text/plain; charset=utf-8", "application/cloudevents+json", "nonsense", "", "a/b"]
)
NAMES = st.sampled_from(
    [
        *GOOD,
        *("ce-time", "ce-subject", "ce-dataschema", "ce-schemaurl", "ce-partitionkey", "ce-extra", "ce-a-b", "ce-data", "ce-"),
        *("ce-datacontenttype", "traceparent", "tracestate", "baggage", "host", "content-length", "x-other"),
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, str]:
    """Header lines, mostly of a valid event that was changed in a few places."""
    headers = dict(GOOD) | draw(st.dictionaries(NAMES, VALUES, max_size=6))
    if draw(st.booleans()):
        headers["content-type"] = draw(TYPES)
    for name in draw(st.lists(st.sampled_from(sorted(GOOD)), max_size=1)):
        headers.pop(name)
    return headers


@given(requests(), st.binary(max_size=3))
@example(GOOD, b"")
@example({**GOOD, "ce-time": "2026-02-28T23:59:60Z"}, b"x")
@example({**GOOD, "content-type": ""}, b"x")
def test_a_record_is_the_one_that_the_general_path_gives(headers: dict[str, str], body: bytes) -> None:
    items = list(headers.items())
    record = to_record(items)
    try:
        [event] = decode_request(items, body)
    except InvalidEvent:
        assert record is None
        return
    if record is None:
        return
    expected, value = encode_record(event, ContentMode.BINARY)
    assert [(name, text.encode()) for name, text in sorted(record.items())] == sorted(expected)
    assert value == (body or None)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"ce-subject": "s", "ce-time": "2026-02-03T04:05:06.123456789+01:00", "ce-extra": "a b"},
        {"content-type": "application/json", "host": "x", "content-length": "3", "traceparent": "00-a-b-01"},
        {"ce-specversion": "0.3"},
    ],
)
def test_the_common_event_takes_the_hot_path(more: dict[str, str]) -> None:
    assert to_record(list((GOOD | more).items())) is not None


def test_names_are_remembered_up_to_a_limit() -> None:
    for number in range(6000):
        assert to_record([*GOOD.items(), (f"ce-made{number}", "x")]) is not None
        assert to_record([*GOOD.items(), (f"x-made-{number}", "x")]) == to_record(list(GOOD.items()))
    assert len(binary._names) <= 4096
