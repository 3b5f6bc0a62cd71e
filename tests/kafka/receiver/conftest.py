"""Receivers for tests, stopped when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.receiver.harness import Bench

Benches = Callable[..., Bench]


@pytest.fixture
def receivers(tmp_path: Path) -> Iterator[Benches]:
    """`receivers(**changes of the configuration)` makes one; it is not started yet."""
    made: list[Bench] = []
    numbers = count()

    def make(**changes: Any) -> Bench:
        folder = tmp_path / f"receiver-{next(numbers)}"
        folder.mkdir()
        bench = Bench(folder, **changes)
        made.append(bench)
        return bench

    yield make
    for bench in made:
        bench.close()
