"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], timeout: float = 30.0, what: str = "", interval: float = 0.02) -> T:
    """The first truthy value of `condition`; fails the test when there is none within `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what or condition}; last value: {value!r}")
        time.sleep(interval)
