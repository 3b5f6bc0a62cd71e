"""How to run Kafka's Java programs: the command line of a server, the formatting of its storage, any of its tools."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headrace.base.classarchive import FOLDER, ClassArchive
from headrace.base.errors import Terminal
from headrace.kafka.cache import cache_folder
from headrace.kafka.jars import Progress, kafka_classpath
from headrace.kafka.java import JavaHome

SERVER = "kafka.Kafka"
STORAGE_TOOL = "kafka.tools.StorageTool"
# For programs that live for a second: compile quickly rather than well.
QUICK_JVM = ("-XX:TieredStopAtLevel=1",)
_JVM = ("-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData", "-Djava.awt.headless=true")


class Command(NamedTuple):
    """A command line and the environment it needs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KafkaRuntime:
    """A Java, the jars of Kafka, and the archive of its classes."""

    java: JavaHome
    classpath: tuple[Path, ...]
    classes: ClassArchive

    @classmethod
    def ready(cls, java: JavaHome, progress: Progress | None = None, cache: Path | None = None) -> KafkaRuntime:
        """The runtime, its jars fetched first if need be (errors: `kafka.jars.fetch`)."""
        cache = cache or cache_folder()
        classpath = tuple(kafka_classpath(progress, cache=cache, java=java))
        return cls(java, classpath, ClassArchive(cache / FOLDER, "kafka", java.java, classpath))

    def command(
        self,
        main: str,
        arguments: Sequence[str] = (),
        *,
        heap_mb: int = 256,
        log4j: Path | None = None,
        options: Sequence[str] = (),
        recording: bool = False,
    ) -> Command:
        """The command that runs the Java class `main`. Without `log4j` its log goes nowhere but errors to standard error.

        `recording`: if there is no archive of Kafka's classes, the process makes it at its end; then call `classes.keep`.
        """
        logging = [f"-Dlog4j2.configurationFile={log4j}"] if log4j else ["-Dlog4j2.level=ERROR"]
        classes = self.classes.recording() if recording else self.classes.options()
        jvm = [f"-Xmx{heap_mb}m", *_JVM, *classes, *logging, *options]
        argv = [str(self.java.java), *jvm, "-cp", self._joined, main, *arguments]
        # Options from outside would be printed to standard error, or break what is asked for here.
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
        }
        return Command(tuple(argv), env | {"JAVA_HOME": str(self.java.path)})

    def format_storage(self, properties: Path, cluster_id: str, arguments: Sequence[str] = ()) -> None:
        """Format the log folder that a `server.properties` names, for `cluster_id`. Raises `Terminal` with the tool's own words."""
        asked = ["format", "-t", cluster_id, "-c", str(properties), *arguments]
        command = self.command(STORAGE_TOOL, asked, options=QUICK_JVM)
        done = subprocess.run(command.argv, env=dict(command.env), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            words = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:])
            raise Terminal(f"could not format the storage: {words}", subject=f"Kafka's storage of {properties}")

    @property
    def _joined(self) -> str:
        return os.pathsep.join(map(str, self.classpath))
