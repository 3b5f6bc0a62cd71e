"""What a query and a job have in common: the function that runs in each task, and which Kafka partition a task reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]
TaskFunction = Callable[[Batches], Batches]
"""Takes the frames of one partition, gives rows of one binary column."""


def planned_partitions(execution: Any) -> tuple[int, ...]:
    """Kafka's partition of each task, by task index, of a JVM `QueryExecution`; empty when the plan can't be read.

    The order is that of a hash map in the source, not that of the numbers. A task of a partition without events has no other way to learn
    which one it serves.
    """
    try:
        leaves = execution.executedPlan().collectLeaves()
        if leaves.size() != 1:
            return ()
        inputs = leaves.apply(0).inputPartitions()
        return tuple(int(inputs.apply(i).offsetRange().topicPartition().partition()) for i in range(inputs.size()))
    except Exception:
        # Py4J: the plan has another shape than this version of Spark gives it. Workers then learn it from their first event.
        return ()


def mapped(frames: DataFrame, function: TaskFunction) -> DataFrame:
    """Run `function` over the frames, one Python worker per partition."""
    return frames.mapInArrow(function, frames.schema)


_TRACEBACK = "Traceback (most recent call last):"


def cause(text: str) -> str:
    """The line of a Spark failure that says what happened: what Python raised in a task, else the innermost cause of Java's."""
    _, raised, frames = text.rpartition(_TRACEBACK)
    if raised:
        return next((line.strip() for line in frames.splitlines() if line and not line.startswith(" ")), _TRACEBACK)
    causes = [line.strip() for line in text.splitlines() if line.strip().startswith(("Caused by:", "org.apache.", "java."))]
    return causes[-1] if causes else text.strip().partition("\n")[0]
