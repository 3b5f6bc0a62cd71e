"""Heartbeats survive their way through Kafka and a change of version."""

from __future__ import annotations

import json

import pytest

from headrace.base.errors import Terminal
from headrace.core.heartbeat import (
    DriverReport,
    LaneReport,
    ReceiverReport,
    Report,
    TopicReport,
    WorkerReport,
    decode_report,
    encode_report,
)


@pytest.mark.parametrize(
    "report",
    [
        ReceiverReport("host-1", 5, 3, ("a", "b"), {"c": "unsupported"}, True, True),
        WorkerReport(
            "t", "id", "r", 1, 3, 5, lanes={"u": LaneReport(position=7, p99_ms=1.5)}, closed={"v": "why"}, goodbye=True
        ),
        DriverReport("host-2", 5, topics={"t": TopicReport("r", "RUNNING")}, lanes={"u": {"PositionLost": "from 3 to 9"}}),
    ],
)
def test_a_report_comes_back_as_it_was(report: Report) -> None:
    assert decode_report(*encode_report(report)) == report


def test_fields_of_a_later_version_are_ignored() -> None:
    key, value = encode_report(ReceiverReport("i", 1))
    assert decode_report(key, json.dumps({**json.loads(value), "later": 1}).encode()) == ReceiverReport("i", 1)


@pytest.mark.parametrize(
    ("key", "value"), [("other/x", b"{}"), ("receiver/x", b"{}"), ("receiver/x", b"nope"), ("worker/x", b"[]")]
)
def test_what_is_no_report_is_refused(key: str, value: bytes) -> None:
    with pytest.raises(Terminal):
        decode_report(key, value)
