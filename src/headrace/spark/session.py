"""One Spark session per process, small and quiet, with the settings that Real-Time Mode needs from Python.

The JVM is started by us, so that what it and the Python workers print goes to a file and not to the user. It ends when this process does:
it watches its standard input.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.base.classarchive import RECORDING_SECONDS
from headrace.base.errors import Terminal
from headrace.base.log import get_logger
from headrace.spark import jvmlog, shipment
from headrace.spark.collector import COLLECTOR
from headrace.spark.settings import SparkSettings

log = get_logger(__name__)

ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
PYTHON_BUFFER = "spark.sql.execution.pandas.udf.buffer.size"


class SparkRuntime:
    """The session of this process, from `start` to `stop`, and the JVM behind it."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._session: SparkSession | None = None
        self._records = False

    def start(self) -> None:
        """Start the JVM and connect to the master. Raises `Terminal` when either fails; the log file says more."""
        settings = self.settings
        for folder in (settings.work, settings.log.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self._records = _uses_archive(settings) and settings.classes is not None and settings.classes.missing
        conf = SparkConf(loadDefaults=False).setAll(list(_conf(settings, jvmlog.written(settings.work)).items()))
        try:
            with _environment(settings), settings.log.open("ab") as output:
                gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
                self._process = gateway.proc
                context = SparkContext(gateway=gateway, conf=conf)
        except (PySparkException, OSError) as error:
            raise self._failure(error) from error
        except Exception as error:
            # Py4J wraps whatever the JVM threw in types of its own.
            raise self._failure(error) from error
        context.setLogLevel("WARN")
        self._session = SparkSession(context)

    def _failure(self, error: Exception) -> Terminal:
        text = str(error).strip().splitlines()
        return Terminal(
            f"Spark did not start: {text[0] if text else error!r}",
            subject=f"Spark master {self.settings.master}",
            hint=f"Look into {self.settings.log}",
        )

    @property
    def session(self) -> SparkSession:
        """The session of live queries: one event per Arrow batch, written to the worker at once."""
        if self._session is None:
            raise RuntimeError("the session was not started")
        return self._session

    def bulk_session(self, rows: int, max_bytes: int) -> SparkSession:
        """A session beside it for batch jobs, with Arrow batches of at most `rows` events and `max_bytes`.

        Spark reads these settings when it plans, so the two kinds of work can't share a session.
        """
        session = self.session.newSession()
        session.conf.set(ARROW_ROWS, str(rows))
        session.conf.set(ARROW_BYTES, str(max_bytes))
        session.conf.set(PYTHON_BUFFER, "65536")
        session.conf.set("spark.sql.sources.useV1SourceList", "")  # the older reader does not tell its partitions
        return session

    @property
    def alive(self) -> bool:
        """Whether the JVM runs."""
        return self._process is not None and self._process.poll() is None

    def gone(self, seconds: float) -> bool:
        """Whether the JVM has ended, or ends within `seconds`."""
        if self._process is None:
            return True
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def pid(self) -> int:
        """Process id of the JVM (of its launcher script, which execs it)."""
        return -1 if self._process is None else self._process.pid

    def _has_worked(self) -> bool:
        """Whether it has run any job: only then an archive has the classes that are worth having."""
        try:
            return bool(self.session.sparkContext._jsc.sc().statusStore().jobsList(None).size())
        except Exception as error:
            # Py4J: the context, or the JVM, has ended by itself.
            log.info("Spark does not say what it did", error=str(error).partition("\n")[0])
            return False

    def slots(self) -> int:
        """Tasks that can run at once, counted at the executors that are there now."""
        if self.settings.local_slots is not None:
            return self.settings.local_slots
        return sum(self._executors())

    @property
    def executors(self) -> int:
        """Executors that are there now; none where Spark runs in this process alone."""
        return 0 if self.settings.local_slots is not None else len(self._executors())

    def _executors(self) -> list[int]:
        """Slots of each executor that has registered."""
        executors = self.session.sparkContext._jsc.sc().statusStore().executorList(True)
        found = (executors.apply(index) for index in range(executors.size()))
        return [int(one.totalCores()) for one in found if one.id() != "driver"]

    def stop(self, timeout: float = 10.0) -> None:
        """Stop the session and the JVM; what is still there after `timeout` seconds is killed. The work folder is removed."""
        process, worked = self._process, False
        if process is not None and process.stdin is not None:
            if self.alive and self._session is not None:
                worked = self._records and self._has_worked()
                try:
                    self._session.stop()
                except Exception as error:
                    log.warning("Spark did not stop by itself", error=str(error).partition("\n")[0])
            process.stdin.close()
            if self._records and not worked:
                process.kill()
            try:
                process.wait(timeout + (RECORDING_SECONDS if self._records else 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if self._records and self.settings.classes is not None:
                self.settings.classes.keep() if worked else self.settings.classes.discard()
        self._session = None
        shutil.rmtree(self.settings.work, ignore_errors=True)


def _conf(settings: SparkSettings, log4j: Path) -> dict[str, str]:
    conf = {
        "spark.master": settings.master,
        "spark.app.name": "headrace",
        "spark.driver.memory": settings.memory,
        "spark.driver.extraJavaOptions": " ".join(map(_quoted, _java_options(settings, log4j))),
        "spark.local.dir": str(settings.work / "local"),
        "spark.sql.warehouse.dir": str(settings.work / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": settings.python,
        "spark.python.daemon.module": settings.daemon,
        "spark.task.maxFailures": "1",
        "spark.locality.wait": "0",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.sql.streaming.checkpointLocation": str(settings.work / "checkpoints"),
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        "spark.sql.streaming.stopTimeout": "10s",
        ARROW_ROWS: "1",
        PYTHON_BUFFER: "16",
        # Idle consumers hold what they have fetched; a job that follows at once still finds them.
        "spark.kafka.consumer.cache.timeout": "10s",
        "spark.kafka.consumer.cache.evictorThreadRunInterval": "5s",
        "spark.kafka.consumer.fetchedData.cache.timeout": "10s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
    }
    return conf | _place(settings) | dict(settings.conf)


def _java_options(settings: SparkSettings, log4j: Path) -> list[str]:
    options = [*COLLECTOR, jvmlog.option(log4j)]
    if settings.pods is not None:
        return [*options, *settings.pods.java_options]
    if settings.classes is not None and _uses_archive(settings):
        return [*options, *settings.classes.recording()]
    return options


def _quoted(option: str) -> str:
    """An option of Java as Spark's launcher reads it: it takes them apart at spaces, but not within quotes."""
    escaped = option.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def _uses_archive(settings: SparkSettings) -> bool:
    return settings.local_slots is not None


def _place(settings: SparkSettings) -> dict[str, str]:
    """What depends on where the executors are. On a cluster they are sent the jars and the Python code, the latter as a folder; pods of
    our image have both.
    """
    if settings.pods is not None:
        return settings.pods.conf(settings.memory, settings.connector, settings.work)
    jars = [str(jar) for jar in settings.connector]
    if settings.local_slots is not None:
        return {
            "spark.driver.extraClassPath": ":".join(jars),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    conf = {"spark.jars": ",".join(jars), "spark.executor.extraJavaOptions": " ".join(COLLECTOR)}
    if settings.archive is not None:
        conf |= {
            "spark.archives": f"{settings.archive}#{shipment.FOLDER}",
            "spark.executorEnv.PYTHONPATH": f"./{shipment.FOLDER}",
        }
    return conf


@contextmanager
def _environment(settings: SparkSettings) -> Iterator[None]:
    """The environment that Spark's start scripts read, put back afterwards."""
    wanted = {
        "JAVA_HOME": str(settings.java_home),
        "PYSPARK_PYTHON": settings.python,
        "PYSPARK_DRIVER_PYTHON": settings.python,
    }
    if settings.local_slots is not None:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    unwanted = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONNECT_MODE")
    before = {name: os.environ.get(name) for name in (*wanted, *unwanted)}
    for name in unwanted:
        os.environ.pop(name, None)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
