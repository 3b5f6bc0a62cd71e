"""Run ids sort as text, whatever topic and job: so the later writer of a position is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from headrace.base.clock import VirtualClock
from headrace.base.errors import Terminal
from headrace.core.contractlog import ContractState
from headrace.core.names import Internal
from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher import runs
from headrace.dispatcher.runs import Runs, job_name, next_run, topic_mark
from headrace.dispatcher.spec import WorkerSpec
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import Fenced


def test_each_run_sorts_after_the_one_before_and_all_its_jobs_whoever_began_it() -> None:
    runs = [""]
    for number in range(120):
        runs.append(next_run("orders", runs[-1], f"{(7 * number) % 16:08x}"))
    ids = [name for run in runs[1:] for name in (run, job_name(run, 1), job_name(run, 2), job_name(run, 10))]
    assert ids == sorted(ids)


def test_runs_of_different_topics_differ() -> None:
    assert next_run("a", "", "00000000") != next_run("b", "", "00000000")
    assert topic_mark("a") == topic_mark("a")


@pytest.mark.parametrize("before", ["", "nonsense", "12"])
def test_what_is_no_run_id_counts_as_none(before: str) -> None:
    assert next_run("a", before, "00000000").startswith("0000000001-")


def test_runs_without_a_mark_of_who_began_them_are_counted_on_from() -> None:
    assert next_run("a", f"0000000041-{topic_mark('a')}", "00000000").startswith("0000000042-")


class FakeContract:
    """The contract topic and its writers: who was initialised last may write, as Kafka has it."""

    def __init__(self) -> None:
        self.state = ContractState()
        self.writer: FakeWriter | None = None
        self.broken = False

    def connect(self, settings: object, topic: str, transactional_id: str) -> FakeWriter:
        return FakeWriter(self)


class FakeWriter:
    def __init__(self, contract: FakeContract) -> None:
        self._contract = contract

    def init(self) -> None:
        self._contract.writer = self

    def put_all(self, records: Iterable[tuple[str, bytes | None]]) -> int:
        if self._contract.writer is not self:
            raise Fenced("a newer writer has taken over")
        if self._contract.broken:
            raise Terminal("the writer broke and could not be replaced")
        for key, value in records:
            self._contract.state.apply(key, value, self._contract.state.offset + 1)
        return self._contract.state.offset


@pytest.fixture
def contract(monkeypatch: pytest.MonkeyPatch) -> FakeContract:
    made = FakeContract()
    monkeypatch.setattr(runs, "TableWriter", made.connect)
    return made


def driver() -> Runs:
    return Runs(KafkaSettings("127.0.0.1:9092"), "contract", Internal("h"), "orders", VirtualClock())


def test_what_was_written_until_a_driver_was_fenced_is_counted_on_from(contract: FakeContract) -> None:
    first, second = driver(), driver()
    first.take_over(lambda: contract.state)
    first.begin()

    def known() -> ContractState:
        with pytest.raises(Fenced):
            first.begin()
        return contract.state

    last = first.begin()
    second.take_over(known)
    assert second.begin() > last


def test_two_drivers_never_have_the_same_run_and_each_takes_the_other_s_for_another(contract: FakeContract) -> None:
    first, second = driver(), driver()
    first.take_over(lambda: ContractState())
    one = first.begin()
    second.take_over(lambda: ContractState())
    two = second.begin()
    assert one != two
    with pytest.raises(Fenced):
        first.check({"orders": two})
    with pytest.raises(Fenced):
        second.check({"orders": one})


def test_what_a_driver_has_not_read_yet_does_not_fence_it(contract: FakeContract) -> None:
    first, second = driver(), driver()
    first.take_over(lambda: contract.state)
    old = first.begin()
    second.take_over(lambda: contract.state)
    second.check({"orders": old})
    mine = [second.begin(), second.begin()]
    for seen in ("", old, *mine):
        second.check({"orders": seen} if seen else {})


def test_drains_that_were_left_of_a_topic_go_with_its_first_run(contract: FakeContract) -> None:
    first, second = driver(), driver()
    first.take_over(lambda: contract.state)
    run = first.begin()
    first.drain(run, "a test")
    first.drain(first.new_job(), "a test")
    foreign = next_run("other", "", "00000000")
    contract.state.drains.add(foreign)
    second.take_over(lambda: contract.state)
    second.begin()
    assert contract.state.drains == {foreign}


def test_a_writer_that_is_beyond_use_ends_the_driver_as_if_it_were_fenced(contract: FakeContract) -> None:
    only = driver()
    only.take_over(lambda: contract.state)
    contract.broken = True
    with pytest.raises(Fenced, match="could not be replaced"):
        only.begin()


def progress(run: str, low: int = 1) -> ProgressRecord:
    return ProgressRecord(Progress(low), uid="u", topic_id="t", run=run)


@pytest.mark.parametrize(
    ("known", "later", "taken"),
    [
        ("0000000001-a", "0000000001-a", True),
        ("0000000001-a", "0000000002-a", True),
        ("0000000002-a", "0000000001-a", False),
        ("0000000002-a", "", True),
        ("", "0000000001-a", True),
    ],
)
def test_progress_of_a_replaced_run_is_ignored(known: str, later: str, taken: bool) -> None:
    assert progress(later).supersedes(progress(known)) is taken
    assert progress(later).supersedes(None)


def test_what_jobs_and_those_who_take_over_from_them_write_is_in_the_order_in_which_they_come() -> None:
    kafka = KafkaSettings("h:1")
    base = WorkerSpec("i", "t", "id", kafka, kafka, run="0000000001-a-b", workers=1, starts={}, positions={})
    jobs = [replace(base, job=job_name(base.run, number)) for number in (1, 2, 9_999, 10_000)]
    before, writers = "0000000000-a-b.00000007r", []
    for worker in (base, jobs[0], base, base, jobs[1], base, jobs[2], jobs[3], base, replace(base, run="0000000002-a-b")):
        before = worker.writer(before)
        writers.append(before)
    assert writers == sorted(writers)
    assert len(set(writers)) == len(writers) - 1
    assert base.writer("") == base.run
