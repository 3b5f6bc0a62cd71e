"""A broker of three is killed while records are produced and consumed: what was acknowledged is there, once, and was read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafkacli import KafkaCommands
from tests.support.waiting import eventually

RECORDS_BEFORE, RECORDS_AFTER = 3000, 3000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCommands]:
    """Three brokers."""
    run = KafkaCommands(None, "--data-dir", str(tmp_path))
    try:
        run("cluster", "up", "--port", 0)
        yield run
    finally:
        run("cluster", "down", "--kill")


class Tool:
    """`headrace kafka ...` as a process of its own whose lines of output are kept as they come."""

    def __init__(self, *words: str, data_dir: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "kafka", *words, "--data-dir", str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def end(self, timeout: float) -> int:
        """Close its input and wait for its end; returns the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(30)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_when_a_broker_dies(cluster: KafkaCommands, tmp_path: Path) -> None:
    cluster("topics", "create", "ledger", "--partitions", 3)
    victim = cluster("topics", "describe", "ledger", "-o", "json").data["partitions"][0]["leader"]
    consumer = Tool("consume", "ledger", "--group", "readers", "--from-beginning", data_dir=tmp_path)
    producer = Tool("produce", "ledger", "--key-separator", "#", "-o", "wide", data_dir=tmp_path)
    try:
        feed(producer, 0, RECORDS_BEFORE)
        eventually(lambda: len(producer.lines) > RECORDS_BEFORE // 2, 120, "half of the records acknowledged")
        killer = threading.Thread(target=cluster, args=("cluster", "stop-broker", victim, "--kill"))
        killer.start()
        feed(producer, RECORDS_BEFORE, RECORDS_BEFORE + RECORDS_AFTER)
        killer.join(60)
        assert in_sync(cluster, 2), "the ISR did not shrink"
        assert victim not in {member for part in in_sync(cluster, 2) for member in part}
        assert producer.end(240) == 0

        acknowledged = sorted(int(line.split("\t")[2]) for line in producer.lines)
        assert acknowledged == list(range(RECORDS_BEFORE + RECORDS_AFTER))
        kept = cluster("consume", "ledger", "--from-beginning", "--until-end", "-o", "json").objects
        assert sorted(int(record["key"]) for record in kept) == acknowledged
        eventually(lambda: set(acknowledged) == read(consumer), 120, "everything acknowledged was consumed")

        cluster("cluster", "start-broker", victim)
        assert all(len(part) == 3 for part in in_sync(cluster, 3)), "the ISR did not grow"
    finally:
        producer.kill()
        consumer.kill()


def feed(producer: Tool, first: int, end: int) -> None:
    for number in range(first, end):
        producer.write(f"{number}#value {number}\n")


def read(consumer: Tool) -> set[int]:
    return {int(line.split("\t")[2]) for line in list(consumer.lines)}


def in_sync(cluster: KafkaCommands, wanted: int) -> list[list[int]]:
    """In-sync replicas by partition, once there are `wanted` of each."""
    found = cluster("topics", "describe", "ledger", "--wait-isr", wanted, "--timeout", 120, "-o", "json").data
    return [part["isr"] for part in found["partitions"]]
