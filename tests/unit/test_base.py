"""Errors, clock, deadline, logging."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.base import log
from headrace.base.clock import Deadline, VirtualClock
from headrace.base.errors import HeadraceError, Retriable, Terminal, UsageError, WaitTimeout
from headrace.base.processors import IdleShare, processors, read_stat


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


def test_the_idle_share_of_processors_is_that_since_the_last_look() -> None:
    texts = iter(
        [
            "cpu  100 0 100 700 100 0 0 0 5 5\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
            "cpu  130 0 130 730 110 0 0 0 9 9\n",
            "cpu  130 10 130 730 110 5 5 0 9 9\n",
            "cpu  130 10 130 730 110 5 5 0 9 9\n",
        ]
    )
    idle = IdleShare(lambda: next(texts))
    assert [idle.since() for _ in range(3)] == [0.4, 0.0, 1.0]


@pytest.mark.parametrize("text", ["", "intr 5\n"])
def test_processors_of_which_nothing_is_known_are_taken_to_be_idle(text: str) -> None:
    assert IdleShare(lambda: text).since() == 1.0


def test_the_kernel_says_what_processors_do() -> None:
    assert read_stat().startswith("cpu ") == Path("/proc/stat").exists()
    assert 1 <= processors() <= (os.cpu_count() or 1)
