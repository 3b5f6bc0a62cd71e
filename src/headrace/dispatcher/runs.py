"""Runs: which start of a topic's query is in force, and the orders that the driver gives to its workers.

A run id is a number with leading zeros, one higher than that of any run of its topic before, a mark of the topic, and one of who began
it; so the run ids of one topic sort as text (`0000000012-7f3a09c1-5b0e66d2`), and no two drivers have the same. A job has the name of its
run and a number (`0000000012-7f3a09c1-5b0e66d2.00000001`), by which it is drained. What they store of a lane carries their names, so that it is
known which came later; a live worker that takes a lane over from a job writes the job's name and an `r`, which lies between that job and the next.

The run is written to the contract topic before its query starts, under the topic's own transactional id: a second driver fences the
first, whose next write fails, or who reads a run that is not its own; it then ends. A worker that reads a newer run ends at once. What the
first wrote before it was fenced must be known to the second before it begins (`take_over`), else it would not count on from there.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from collections.abc import Callable, Mapping

from headrace.base.clock import Clock
from headrace.base.errors import Terminal
from headrace.core.contractlog import ContractState, drain_key, drain_record, run_record
from headrace.core.names import Internal
from headrace.dispatcher.spec import LaneOrders, lanes_key
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.table import Fenced, TableWriter

_RUN = re.compile(r"(\d{10})-([0-9a-f]{8})(-[0-9a-f]{8})?")


_COUNTER = 10
"""Digits of a run id that count."""


def topic_mark(topic: str) -> str:
    """What tells the runs of different topics apart: 8 hexadecimal digits."""
    return hashlib.sha256(topic.encode()).hexdigest()[:8]


def new_mark() -> str:
    """What tells those who begin runs apart: 8 hexadecimal digits."""
    return secrets.token_hex(4)


def next_run(topic: str, before: str, mark: str) -> str:
    """The id after `before` (empty, or something that is no run id: the first one), begun by `mark`."""
    match = _RUN.fullmatch(before)
    return f"{int(match[1]) + 1 if match else 1:010d}-{topic_mark(topic)}-{mark}"


def is_of(owner: str, topic: str) -> bool:
    """Whether a run or job is one of `topic`."""
    match = _RUN.fullmatch(owner.partition(".")[0])
    return match is not None and match[2] == topic_mark(topic)


def job_name(run: str, number: int) -> str:
    """Name of the `number`th job of `run` (from 1)."""
    return f"{run}.{number:08d}"


class WriterLost(Fenced):
    """Runs can't be written any more, and a new writer could fence a newer driver: as good as fenced."""


class Runs:
    """Writes the runs of one topic and the orders to their workers. `run` is the one in force, empty before the first `begin`."""

    def __init__(self, settings: KafkaSettings, contract_topic: str, names: Internal, topic: str, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self._mark = new_mark()
        self._writer = TableWriter(settings, contract_topic, names.transactional(topic))
        self._lock = threading.Lock()
        self._jobs = 0
        self._stale: list[str] = []
        self._before = ""
        self.run = ""

    def take_over(self, known: Callable[[], ContractState]) -> None:
        """Fence whoever wrote runs of this topic before.

        `known` reads the contract to the end that it has when it is called. Drains in it are removed with the first run. Errors as `begin`,
        or what `known` raises; it may be called again.
        """
        self._writer.init()
        contract = known()
        owners = [owner for owner in contract.drains if is_of(owner, self._topic)]
        with self._lock:
            self._before = contract.runs.get(self._topic, "")
            self._stale = [key for owner in owners for key in (drain_key(owner), lanes_key(owner))]

    def begin(self) -> str:
        """Put the next run in force, and remove the orders to ended ones. Raises `Fenced`."""
        run = next_run(self._topic, max(self._before, self.run), self._mark)
        with self._lock:
            stale, self._stale = self._stale, []
            self._write([run_record(self._topic, run, self._now()), *((key, None) for key in stale)])
            self.run, self._jobs = run, 0
            self._stale += [drain_key(run), lanes_key(run)]
        return run

    def new_job(self) -> str:
        """A name for the next job of the run in force."""
        with self._lock:
            self._jobs += 1
            return job_name(self.run, self._jobs)

    def drain(self, owner: str, reason: str) -> None:
        """Ask the workers of a run or job to finish and stop."""
        self._write([drain_record(owner, self._now(), reason)])
        if owner != self.run:
            with self._lock:
                self._stale.append(drain_key(owner))

    def order(self, orders: LaneOrders) -> int:
        """Give the live workers of the run in force their orders, in place of the last ones; the offset of the record."""
        return self._write([orders.record(self.run)])

    def check(self, runs: Mapping[str, str]) -> None:
        """Raise `Fenced` when the contract (`runs`: topic -> run) names a run of this topic that another driver began."""
        known = runs.get(self._topic, "")
        if self.run and not known.endswith(self._mark) and known[:_COUNTER] >= self.run[:_COUNTER]:
            raise Fenced(
                f"another driver serves it: run {known} followed ours, {self.run}",
                subject=f"topic {self._topic}",
                hint="Only one dispatcher may serve a topic: this one ends",
            )

    def close(self) -> None:
        """Let go of the writer."""
        self._writer.close()

    def _write(self, records: list[tuple[str, bytes | None]]) -> int:
        try:
            return self._writer.put_all(records)
        except Fenced:
            raise
        except Terminal as error:
            raise WriterLost(error.message, subject=error.subject, hint=error.hint) from error

    def _now(self) -> int:
        return int(self._clock.now() * 1000)
