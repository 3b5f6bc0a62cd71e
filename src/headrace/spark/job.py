"""A batch job over ranges of one topic, through the same function as the streaming query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from headrace.spark.frame import framed
from headrace.spark.source import Source
from headrace.spark.tasks import TaskFunction, mapped, planned_partitions

Ranges = Mapping[int, tuple[int, int]]
"""Kafka partition -> first offset and the offset after the last. None is empty."""


class RangeJob:
    """One job: `start` returns at once, `done` tells the end, then `rows` or `failure` hold the outcome."""

    def __init__(self, session: SparkSession, source: Source, name: str, ranges: Ranges) -> None:
        self._session = session
        self._name = name
        self._frames = framed(session.read.format("kafka").options(**source.batch(ranges)).load())
        self._thread: threading.Thread | None = None
        self.rows: list[bytes] = []
        self.failure = ""

    def partitions(self) -> tuple[int, ...]:
        """Kafka's partition of each task, planned before the job starts."""
        return planned_partitions(self._frames._jdf.queryExecution())

    def start(self, function: TaskFunction, on_done: Callable[[], None]) -> None:
        """Run it in a thread; `on_done` is called there at its end."""

        def run() -> None:
            context = self._session.sparkContext
            try:
                context.setJobGroup(self._name, self._name)
                self.rows = [bytes(row[0]) for row in mapped(self._frames, function).collect() if row[0] is not None]
            except Exception as error:
                # Py4J and Spark have dozens of types for this; to the caller the job is lost, whatever the reason.
                self.failure = str(error).strip().partition("\n")[0] or repr(error)
            on_done()

        self._thread = InheritableThread(target=run, name=f"job {self._name}", daemon=True, session=self._session)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._thread is not None and not self._thread.is_alive()

    def cancel(self) -> None:
        """Have Spark give it up. Workers are not killed: they see their input end."""
        self._session.sparkContext.cancelJobGroup(self._name)
