"""Calls that are put off."""

from __future__ import annotations

import threading

from headrace.base.clock import SystemClock
from headrace.receiver.later import Later


def test_calls_are_made_in_order_after_the_time_and_one_that_fails_stops_nobody() -> None:
    clock = SystemClock()
    later = Later(0.05, clock)
    later.start()
    done: list[tuple[int, float]] = []
    finished = threading.Event()

    def note(number: int) -> None:
        done.append((number, clock.monotonic()))

    def fail() -> None:
        raise ValueError("one that fails")

    begun = clock.monotonic()
    later.call(lambda: note(1))
    later.call(fail)
    later.call(lambda: note(2))
    later.call(finished.set)
    assert finished.wait(10)
    assert [number for number, _ in done] == [1, 2]
    assert all(at - begun >= 0.05 for _, at in done)
    later.close()


def test_what_waits_at_the_end_is_still_done() -> None:
    later = Later(0.05, SystemClock())
    later.start()
    done: list[int] = []
    later.call(lambda: done.append(1))
    later.close()
    assert done == [1]
