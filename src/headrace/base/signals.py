"""Signals that ask a process to stop, acted on by a thread of their own.

A Python signal handler runs on the main thread, between two of its instructions: it comes too late when that thread has just gone to sleep
on a lock, and it deadlocks when it touches a lock (that of a `threading.Event`, say) that this thread holds. Here the interpreter's
wakeup descriptor, which is written at once whatever any thread does, wakes a thread that may do everything.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM)


def act_on(
    numbers: Iterable[int], act: Callable[[int], None], on_main: Callable[[int, FrameType | None], None] | None = None
) -> None:
    """From now on call `act` with the number of each of these signals that arrives, on a thread of its own.

    `on_main` is the Python handler as well, for what only the main thread can do to itself (raise an exception); it may not touch
    locks. Call it from the main thread, once in a process.
    """
    wanted = frozenset(numbers)
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    threading.Thread(target=_follow, args=(readable, wanted, act), name="signals", daemon=True).start()
    for number in wanted:
        signal.signal(number, on_main or _nothing)


def until_asked() -> threading.Event:
    """An event that SIGINT or SIGTERM sets; a second one ends the process at once, with 128 and the signal's number."""
    stop = threading.Event()

    def act(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    act_on(STOPPING, act)
    return stop


def _follow(readable: int, wanted: frozenset[int], act: Callable[[int], None]) -> None:
    while True:
        for number in os.read(readable, 64):
            if number in wanted:
                act(number)


def _nothing(number: int, frame: FrameType | None) -> None:
    """The signal is seen to elsewhere."""
