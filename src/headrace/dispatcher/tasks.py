"""The function that Spark ships to each task: the spec, and which task it is."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from headrace.dispatcher.spec import Task, WorkerSpec
from headrace.dispatcher.worker import run_partition
from headrace.spark.tasks import Batches, TaskFunction


def task_function(spec: WorkerSpec) -> TaskFunction:
    """`run_partition` for `spec`, to be called once in each task."""

    def run_task(batches: Batches) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        return run_partition(spec, batches, Task(0 if context is None else context.partitionId()))

    return run_task
