"""Write `jars.lock` anew: for whoever raises the version of Kafka or Spark (`scripts/lock-jars`). No part of a running Headrace."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from headrace.base.errors import Retriable
from headrace.kafka.ivy import Coordinates, run_ivy
from headrace.kafka.jars import KAFKA, SPARK_CONNECTOR, sha256
from headrace.kafka.java import java_home

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"
_HEAD = "# The jars that run beside the Python packages: group, Maven coordinates, SHA-256. Written by scripts/lock-jars.\n"
# Kafka Connect brings a web server; none of its tools are used here.
_WITHOUT = [("org.apache.kafka", "connect-runtime")]


def main() -> None:
    """Resolve both groups and write the lock file beside this module."""
    kafka = [
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ]
    connector = [("org.apache.spark", "spark-sql-kafka-0-10_2.13", importlib.metadata.version("pyspark"))]
    lines = [*_lines(KAFKA, kafka, set()), *_lines(SPARK_CONNECTOR, connector, _jars_of_spark())]
    Path(__file__).with_name("jars.lock").write_text(_HEAD + "".join(lines))


def _lines(group: str, roots: list[Coordinates], there: set[str]) -> Iterator[str]:
    """The lines of one group: `roots` and what they need, without the modules that are `there` already."""
    with tempfile.TemporaryDirectory() as work:
        log = Path(work, "log")
        outcome = run_ivy(java_home().java, roots, Path(work), print, log, without=_WITHOUT)
        if not set(roots) <= set(outcome.found):
            raise Retriable(f"not resolved: {log.read_text()}", subject=group)
        for jar, path in sorted(outcome.found.items()):
            if jar[1] not in there:
                yield f"{group} {':'.join(jar)} {sha256(path)}\n"


def _jars_of_spark() -> set[str]:
    spark = importlib.util.find_spec("pyspark")
    folders = (spark.submodule_search_locations or []) if spark else []
    return {re.sub(r"-\d[\d.]*(-\d+)?$", "", jar.stem) for folder in folders for jar in Path(folder, "jars").glob("*.jar")}


if __name__ == "__main__":
    main()
