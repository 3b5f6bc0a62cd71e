"""Fixtures of the tests that start Spark: starting it takes seconds, so one session, and one dispatcher, serve many tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.jars import spark_connector_jars
from headrace.kafka.java import java_home
from headrace.spark.session import SparkRuntime
from headrace.spark.settings import SparkSettings, class_archive


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRuntime]:
    """A Spark of 32 slots in this process, with the stock daemon of Python workers."""
    folder: Path = tmp_path_factory.mktemp("spark")
    java, connector = java_home(), tuple(spark_connector_jars())
    classes = class_archive(folder, java.java, connector)
    runtime = SparkRuntime(
        SparkSettings(
            java_home=java.for_spark,
            connector=connector,
            work=folder / "work",
            log=folder / "spark.log",
            daemon="pyspark.daemon",
            master="local[32]",
            classes=classes,
        )
    )
    runtime.start()
    yield runtime
    runtime.stop()
    assert not classes.missing, "the classes of a Spark that worked are kept"
