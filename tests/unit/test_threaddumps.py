"""Processes that can tell what they do are asked; to others nothing is done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.base import threaddumps
from headrace.core.report import Report
from headrace.standalone.dumps import ThreadDumps
from tests.support.waiting import eventually

ANSWERING = "from headrace.base import threaddumps; threaddumps.answer()\n"
MUTE = "pass\n"
LIVE = "def in_the_middle():\n    print('up', flush=True)\n    import time; time.sleep(600)\nin_the_middle()\n"


class Children:
    """Python processes that write to logs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, program: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = self._folder / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen([sys.executable, "-c", program + LIVE], stdout=out, stderr=out)
        self.running.append(process)
        eventually(lambda: b"up" in log.read_bytes(), 60)
        return process, log


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    made = Children(tmp_path)
    yield made
    for process in made.running:
        process.kill()
        process.wait()


def test_a_process_that_answers_tells_where_each_thread_is(children: Children) -> None:
    process, log = children.start("part", ANSWERING)
    dumps = ThreadDumps({"part": log}, [process.pid])
    report = Report()
    dumps.collect(report, 60)
    assert [one.path for one in report.documents] == ["threads/part.txt"]
    assert "in in_the_middle" in report.documents[0].content
    assert "up" not in report.documents[0].content.splitlines()
    assert not report.missing
    assert process.poll() is None


def test_a_process_that_would_be_ended_by_asking_is_not_asked(children: Children) -> None:
    process, log = children.start("mute", MUTE)
    assert threaddumps.ask([process.pid]) == []
    report = Report()
    ThreadDumps({"part": log}, [process.pid]).collect(report)
    assert not report.documents
    assert process.poll() is None


def test_who_does_not_answer_is_listed(children: Children, tmp_path: Path) -> None:
    process, _ = children.start("elsewhere", ANSWERING)
    empty = tmp_path / "other.log"
    empty.touch()
    report = Report()
    ThreadDumps({"part": empty}, [process.pid]).collect(report, 0.0)
    assert [one.what for one in report.missing] == ["thread dumps"]
    assert f"0 of 1 processes ({process.pid})" in report.missing[0].reason


def test_processes_that_are_gone_are_passed_over() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert threaddumps.ask([process.pid, 0]) == []
