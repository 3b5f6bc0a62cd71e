"""A batch job over ranges of one topic, through the same function as the streaming query.

It is planned once; then each of its tasks is run by itself, some at a time: as many as there are would each need a Python process and its
share of the caches, whether or not processors are free for them.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from headrace.spark.frame import framed
from headrace.spark.source import Source
from headrace.spark.tasks import TaskFunction, cause, mapped, planned_partitions

Ranges = Mapping[int, tuple[int, int]]
"""Kafka partition -> first offset and the offset after the last. None is empty. Their tasks begin in this order."""


_LOOK_SECONDS = 1.0


class RangeJob:
    """One job: `start` returns at once, `done` tells the end, then `rows` or `failure` hold the outcome.

    `begun`: the partitions whose tasks were handed to Spark; `under_way`: those of them whose tasks it has not ended yet.
    """

    def __init__(self, session: SparkSession, source: Source, name: str, ranges: Ranges) -> None:
        self._session = session
        self._name = name
        self._frames = framed(session.read.format("kafka").options(**source.batch(ranges)).load())
        self._partitions: tuple[int, ...] | None = None
        self._waiting = deque(ranges)
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._at_once = 0
        self._tasks: dict[int, threading.Thread] = {}
        self._cancelled = False
        self.begun: list[int] = []
        self.rows: list[bytes] = []
        self.failure = ""

    def partitions(self) -> tuple[int, ...]:
        """Kafka's partition of each task, planned before the job starts; empty when the plan can't be read."""
        if self._partitions is None:
            self._partitions = planned_partitions(self._frames._jdf.queryExecution())
        return self._partitions

    def start(self, function: TaskFunction, on_done: Callable[[], None], at_once: int) -> None:
        """Run it in a thread, so many tasks at once (all, if it is not known which they are); `on_done` is called there at its end."""
        self._at_once = at_once if self.partitions() else len(self._waiting)

        def run() -> None:
            try:
                self._session.sparkContext.setJobGroup(self._name, self._name)
                self._run_tasks(mapped(self._frames, function)._jdf.javaToPython())
            except Exception as error:
                self._fail(error)
            on_done()

        self._thread = InheritableThread(target=run, name=f"job {self._name}", daemon=True, session=self._session)
        self._thread.start()

    def more(self, tasks: int) -> None:
        """Let so many more tasks run at once."""
        with self._changed:
            self._at_once += tasks
            self._changed.notify_all()

    def begin_no_more(self) -> None:
        """Tasks that have not begun never will; the job is done when the others are."""
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def under_way(self) -> frozenset[int]:
        """See the class."""
        with self._changed:
            return frozenset(self._tasks)

    def cancel(self) -> None:
        """Have Spark give it up. Workers are not killed: they see their input end.

        A task that is just being handed over escapes that: call it again while any is `under_way`.
        """
        self._cancelled = True
        self.begin_no_more()
        self._session.sparkContext.cancelJobGroup(self._name)

    def _run_tasks(self, rdd: Any) -> None:
        """`rdd`: the JVM's, of pickled rows."""
        with self._changed:
            while not self.failure and (self._tasks or self._waiting):
                while self._waiting and len(self._tasks) < self._at_once:
                    self._begin_task(rdd, self._waiting.popleft())
                self._changed.wait(_LOOK_SECONDS)
                if any(not thread.is_alive() for thread in self._tasks.values()):
                    raise RuntimeError("a task did not begin")

    def _begin_task(self, rdd: Any, partition: int) -> None:
        index = self.partitions().index(partition) if self.partitions() else len(self.begun)
        name = f"job {self._name} task {index}"
        thread = InheritableThread(
            target=self._run_task, args=(rdd, index, partition), name=name, daemon=True, session=self._session
        )
        self.begun.append(partition)
        self._tasks[partition] = thread
        thread.start()

    def _run_task(self, rdd: Any, index: int, partition: int) -> None:
        context = self._session.sparkContext
        rows: list[bytes] = []
        try:
            if self._cancelled:
                raise RuntimeError("it was cancelled")
            assert context._gateway is not None
            indices = context._gateway.new_array(context._gateway.jvm.int, 1)
            indices[0] = index
            (batches,) = rdd.collectPartitions(indices)
            rows = [bytes(row[0]) for batch in batches for row in pickle.loads(batch) if row[0] is not None]
        except Exception as error:
            self._fail(error)
        finally:
            with self._changed:
                self.rows += rows
                del self._tasks[partition]
                self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        """Py4J and Spark have dozens of types for this; to the caller the job is lost, whatever the reason."""
        try:
            text = cause(str(error)) or repr(error)
        except Exception:
            text = "the JVM is gone"  # it is asked for the text
        with self._changed:
            self.failure = self.failure or text
