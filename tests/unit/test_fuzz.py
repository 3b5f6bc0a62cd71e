"""A moment of fuzzing in each run, always the same; and every finding of longer runs, kept as a case."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import fuzzing

CASES = sorted(path for path in fuzzing.CASES.glob("*/*") if path.is_file())


@pytest.mark.parametrize("target", fuzzing.TARGETS)
def test_the_seeds_are_taken(target: str) -> None:
    for seed in fuzzing.SEEDS[target]:
        assert fuzzing.TARGETS[target](seed)


@pytest.mark.parametrize("target", fuzzing.TARGETS)
def test_no_mutation_breaks_a_decoder(target: str) -> None:
    accepted = sum(fuzzing.TARGETS[target](data) for data in islice(fuzzing.mutations(target, seed=7), 400))
    assert 0 < accepted < 400


@pytest.mark.parametrize("target", fuzzing.TARGETS)
@given(data=st.binary(max_size=200))
def test_no_bytes_break_a_decoder(target: str, data: bytes) -> None:
    fuzzing.TARGETS[target](data)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_earlier_finding_comes_back(path: Path) -> None:
    fuzzing.TARGETS[path.parent.name](path.read_bytes())
