"""The tutorials do what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tutorial import Shell, comparable, steps

KAFKA = Path(__file__).parents[2] / "docs" / "tutorials" / "kafka-hands-on.md"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell in an empty folder; its cluster takes any free ports."""
    made = Shell(tmp_path, HEADRACE_KAFKA_PORT="0")
    yield made
    made.run("test ! -e .headrace/cluster/cluster.json || headrace kafka cluster down --kill")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kafka_hands_on(shell: Shell) -> None:
    text = KAFKA.read_text()
    commands = list(steps(text))
    assert len(commands) == text.count("\n$ ") > 20
    for step in commands:
        assert comparable(shell.run(step.command)) == comparable(step.output), step.command
