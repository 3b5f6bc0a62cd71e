"""What a Spark session of ours needs to know."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from headrace.base.classarchive import FOLDER, ClassArchive
from headrace.base.errors import UsageError
from headrace.spark.pods import MASTER, ExecutorPods

_LOCAL = re.compile(r"local\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Spark runs and with what.

    `java_home`: folder whose `bin/java` starts it. `connector`: jars of the Kafka source with what Spark itself lacks. `work`:
    folder of this process alone: checkpoints (thrown away), spilled data, log settings. `log`: file that gets what the JVM and
    the Python workers print. `memory`: heap of the JVM. `daemon`: Python module that forks the workers. `python`: the
    interpreter of the workers, on a cluster that of its hosts. `archive`: what executors on other hosts need of Python
    (`spark.shipment`). `pods`: the executors of a Kubernetes cluster, which need no archive. `classes`: the archive of the JVM's classes,
    made when it is missing; for `local[N]` only. `conf`: more settings, which win over ours.
    """

    java_home: Path
    connector: tuple[Path, ...]
    work: Path
    log: Path
    daemon: str
    master: str = "local[256]"
    memory: str = "512m"
    python: str = sys.executable
    archive: Path | None = None
    pods: ExecutorPods | None = None
    classes: ClassArchive | None = None
    conf: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.master.startswith("local") and not _LOCAL.fullmatch(self.master):
            raise UsageError(
                "the number of slots has to be given",
                subject=f"--master {self.master}",
                hint="Use local[N] with N of at least the number of partitions of all topics, such as local[256]",
            )
        if self.master.startswith(MASTER) != (self.pods is not None):
            raise UsageError(
                "executors in pods need a Kubernetes API server as the master, and it needs to know their number and template",
                subject=f"--master {self.master}",
                hint="Set dispatcher.executors and dispatcher.executor_template, as the operator does",
            )

    @property
    def local_slots(self) -> int | None:
        """N of `local[N]`; None on a cluster."""
        match = _LOCAL.fullmatch(self.master)
        return int(match[1]) if match else None


def class_archive(cache: Path, java: Path, connector: Sequence[Path]) -> ClassArchive:
    """The archive of Spark's classes. `java`: the real executable, no shim; `connector` as above."""
    jars = Path(pyspark.__file__).parent / "jars"
    return ClassArchive(cache / FOLDER, "spark", java, [*connector, jars])
