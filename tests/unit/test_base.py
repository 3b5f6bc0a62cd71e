"""Errors, clock, deadline, logging."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from headrace.base import log
from headrace.base.clock import Deadline, VirtualClock
from headrace.base.errors import HeadraceError, Retriable, Terminal, UsageError, WaitTimeout


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    kept, level = list(root.handlers), root.level
    yield
    root.handlers[:] = kept
    root.setLevel(level)


def test_an_error_says_what_which_object_and_what_to_do() -> None:
    error = Terminal("port 80 is taken", subject="receiver", hint="Choose another")
    assert str(error) == "receiver: port 80 is taken. Choose another"
    assert str(HeadraceError("plain")) == "plain"


def test_exit_codes_follow_the_kind_of_error() -> None:
    codes = [Terminal("x").exit_code, Retriable("x").exit_code, UsageError("x").exit_code, WaitTimeout("x").exit_code]
    assert codes == [1, 1, 2, 3]


def test_a_deadline_counts_down_and_never_below_zero() -> None:
    clock = VirtualClock()
    deadline = Deadline(5, clock)
    clock.advance(3)
    assert (deadline.remaining(), deadline.expired) == (2, False)
    clock.advance(3)
    assert (deadline.remaining(), deadline.expired) == (0, True)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


@pytest.mark.usefixtures("root_logger")
def test_text_logs_hold_the_sentence_and_the_fields() -> None:
    out = io.StringIO()
    log.configure(stream=out)
    log.get_logger("x").warning("Topic is gone", topic="a b", partition=3, empty="")
    assert out.getvalue().rstrip().endswith('WARNING Topic is gone topic="a b" partition=3 empty=""')


@pytest.mark.usefixtures("root_logger")
def test_json_logs_are_one_object_a_line_with_the_traceback() -> None:
    out = io.StringIO()
    log.configure(stream=out, json_format=True)
    try:
        raise KeyError("k")
    except KeyError:
        log.get_logger("x").exception("It failed", topic="t")
    record = json.loads(out.getvalue())
    assert (record["message"], record["topic"], record["level"], record["logger"]) == ("It failed", "t", "error", "x")
    assert "KeyError" in record["exception"]


@pytest.mark.usefixtures("root_logger")
def test_the_level_is_respected() -> None:
    out = io.StringIO()
    log.configure(stream=out, level="warning")
    log.get_logger("x").info("Not told")
    assert out.getvalue() == ""
