"""The streaming query of one topic, in Real-Time Mode: one task per partition, all at once, each event handed to Python as it arrives."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.base.errors import Retriable
from headrace.base.log import get_logger
from headrace.spark.frame import framed, pushed
from headrace.spark.source import Source
from headrace.spark.tasks import TaskFunction, cause, mapped, planned_partitions

log = get_logger(__name__)


class LiveQuery:
    """A query from `start` to `stop`. Its checkpoint is thrown away: where to start is the caller's knowledge."""

    def __init__(self, session: SparkSession, source: Source, work: Path) -> None:
        self._session = session
        self._source = source
        self._checkpoint = work / "checkpoints" / uuid.uuid4().hex
        self._query: StreamingQuery | None = None

    def start(self, starts: Mapping[int, int], function: TaskFunction, batch_seconds: int) -> None:
        """Start reading at `starts`; one batch lasts `batch_seconds`. Raises `Retriable` when Spark refuses."""
        try:
            records = self._session.readStream.format("kafka").options(**self._source.stream(starts)).load()
            writer = mapped(pushed(framed(records)), function).writeStream.format("noop").outputMode("update")
            writer = writer.option("checkpointLocation", str(self._checkpoint))
            real_time = {"realTime": f"{batch_seconds} seconds"}  # the type stubs do not know it yet
            self._query = writer.trigger(**real_time).start()
        except PySparkException as error:
            raise Retriable(f"the query did not start: {_first_line(error)}", subject=f"topic {self._source.topic}") from error

    @property
    def active(self) -> bool:
        """Whether Spark goes on with it."""
        return self._query is not None and self._query.isActive

    @property
    def failure(self) -> str:
        """Why it ended by itself, in one line; empty while it runs or when it was stopped."""
        error = None if self._query is None else self._query.exception()
        return "" if error is None else cause(str(error))

    def partitions(self) -> tuple[int, ...]:
        """Kafka's partition of each task; empty until the batch is planned (about half a second after the start)."""
        if self._query is None:
            return ()
        execution = self._query._jsq.streamingQuery().lastExecution()
        return () if execution is None else planned_partitions(execution)

    def stop(self) -> None:
        """Stop reading. Workers are not killed: they see their input end."""
        if self._query is not None:
            try:
                self._query.stop()
            except Exception as error:
                # Py4J: the JVM is gone, or the query did not stop in time; either way there is nothing more to do here.
                log.warning("A query did not stop by itself", topic=self._source.topic, error=_first_line(error))
        shutil.rmtree(self._checkpoint, ignore_errors=True)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
