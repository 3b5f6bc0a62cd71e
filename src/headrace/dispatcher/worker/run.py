"""The function that Spark calls: it reads its input to the end, whatever happens, and lets the engine do the rest."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa

from headrace.base.clock import SystemClock
from headrace.base.log import configure, get_logger
from headrace.core.names import Internal
from headrace.dispatcher.spec import FRAME_COLUMN, Mode, Task, WorkerSpec, catchup_row
from headrace.dispatcher.worker.engine import Engine
from headrace.kafka.table import TableReader

log = get_logger(__name__)

_FILES = 8192
_LAST_WRITES = 3.0
_MODEST = 10
"""How much nicer than live workers those of jobs are: they take what those leave of the processors."""


def run_partition(spec: WorkerSpec, batches: Iterator[pa.RecordBatch], task: Task = Task()) -> Iterator[pa.RecordBatch]:
    """Deliver the events of one partition until the input ends.

    `batches` have the one column `frame` (`core.frame`); null rows are ignored. A live worker yields nothing, a catch-up worker one row
    per lane at the end. It neither raises nor returns before its input has ended: an internal error ends the process.
    """
    _allow_many_files()
    if spec.mode is Mode.CATCHUP:
        _be_modest()
    configure(json_format=spec.log_json, level=spec.log_level)
    try:
        yield from work(spec, batches, task)
    except GeneratorExit:
        log.error("A worker was closed before its input ended", topic=spec.topic, run=spec.owner)
        os._exit(1)
    except BaseException:
        log.exception("A worker could not go on", topic=spec.topic, run=spec.owner)
        os._exit(1)


def work(
    spec: WorkerSpec, batches: Iterator[pa.RecordBatch], task: Task, exit: Callable[[int], None] = os._exit
) -> Iterator[pa.RecordBatch]:
    """`run_partition` without the last resort; `exit` ends the process at once."""
    clock = SystemClock()
    if spec.mode is Mode.LIVE and 0 < spec.due <= clock.now():
        # A run is one batch; what the spec says of positions is true of no other.
        log.error("A worker of a batch that follows the run's only one ends", topic=spec.topic, run=spec.owner)
        exit(1)
    engine = Engine(spec, task, clock, exit)
    topic = spec.contract_topic or Internal(spec.instance).contract
    start = 0 if spec.contract is None else spec.contract.offset + 1
    contract = TableReader(spec.control, topic, engine.contract_record, skim=True, start=start)
    contract.start()
    engine.start(contract)
    try:
        for batch in batches:
            frames = [frame for frame in batch.column(0).to_pylist() if frame is not None]
            if frames:
                engine.intake.put(frames)
    except Exception:
        # The JVM is gone, or the task was killed: what is done is written all the same.
        engine.intake.end()
        engine.stopped.wait(spec.grace + _LAST_WRITES)
        raise
    engine.intake.end()
    engine.stopped.wait()
    contract.close(wait=False)
    if spec.mode is Mode.CATCHUP:
        rows = [catchup_row(*record) for record in engine.final_records()]
        yield pa.RecordBatch.from_arrays([pa.array(rows, pa.binary())], names=[FRAME_COLUMN])
    engine.close()


@cache
def _be_modest() -> None:
    """Once in a process. Threads that this one starts are as nice.

    Spark keeps the processes of jobs apart from those of live queries, so none comes to those.
    """
    os.nice(_MODEST)


def _allow_many_files() -> None:
    """Each request under way is a socket; the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
