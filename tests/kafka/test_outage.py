"""A Kafka that is killed and comes back: tables and the admin side go on, nothing confirmed is lost, nothing is seen twice."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.base.clock import Deadline
from headrace.base.errors import Retriable
from headrace.kafka.admin import Admin
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.runtime import QUICK_JVM
from headrace.kafka.table import TableReader, TableWriter
from tests.support.waiting import eventually


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A Kafka that a test may kill."""
    made = EmbeddedKafka(tmp_path / "kafka", jvm_options=QUICK_JVM)
    made.start()
    yield made
    made.stop()


class Repeating:
    """Does one thing over and over in a thread; what it raises besides `Retriable` fails the test at `stop`."""

    def __init__(self, step: Callable[[int], None]) -> None:
        self.failures: list[BaseException] = []
        self.rounds = 0
        self._step = step
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        assert self.failures == []

    def _run(self) -> None:
        for index in itertools.count():
            if self._ending.is_set():
                return
            try:
                self._step(index)
            except Retriable:
                continue
            except BaseException as error:
                self.failures.append(error)
                return
            self.rounds += 1


@pytest.mark.parametrize("transactional_id", [None, "one-writer"], ids=["independent", "transactional"])
def test_tables_go_on_after_a_kill_without_losing_or_repeating_a_confirmed_record(
    broker: EmbeddedKafka, transactional_id: str | None
) -> None:
    Admin(broker.settings).create_topic("table", 1, config={"cleanup.policy": "compact"})
    seen: list[tuple[int, str]] = []
    reader = TableReader(broker.settings, "table", lambda key, value, offset: seen.append((offset, key)))
    writer = TableWriter(broker.settings, "table", transactional_id, timeout=3)
    writer.init()
    reader.start()
    confirmed: dict[str, int] = {}

    def put(index: int) -> None:
        confirmed[str(index)] = writer.put(str(index), b"v")

    writing = Repeating(put)
    try:
        eventually(lambda: writing.rounds > 20, 60, "records are written")
        broker.kill()
        before = writing.rounds
        broker.start()
        eventually(lambda: writing.rounds > before + 20, 60, "records are written again")
    finally:
        writing.stop()
    reader.wait_applied(max(confirmed.values()), Deadline(60))
    reader.close()
    writer.close()
    offsets = [offset for offset, _ in seen]
    assert offsets == sorted(set(offsets)), "each record once, in order"
    assert set(confirmed.items()) <= {(key, offset) for offset, key in seen}, "everything confirmed is there"


def test_group_offsets_are_set_and_read_through_a_restart_and_the_process_lives(broker: EmbeddedKafka) -> None:
    admin = Admin(broker.settings, timeout=3)
    admin.create_topic("lanes", 4)
    wanted = {f"g{index}": {("lanes", partition): 7 for partition in range(4)} for index in range(10)}
    done = threading.Event()

    def mirror(index: int) -> None:
        refused = admin.commit_many(wanted)
        offsets = admin.group_offsets(f"g{index % 10}", "lanes")
        if not any(refused.values()) and offsets == dict.fromkeys(range(4), 7):
            done.set()

    mirroring = Repeating(mirror)
    try:
        for _ in range(2):
            done.clear()
            assert done.wait(60), "the mirror works"
            broker.kill()
            broker.start()
        done.clear()
        assert done.wait(60), "the mirror works again"
    finally:
        mirroring.stop()
