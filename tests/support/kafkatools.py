"""Kafka's own tools, run as a user would run them from a distribution."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.kafka.java import java_home
from headrace.kafka.runtime import KafkaRuntime

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
_UTF8 = ("-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8")


@dataclass(frozen=True)
class Said:
    """What a tool printed; lines of its logging library are left out of `err`."""

    code: int
    out: bytes
    err: str


def kafka_tool(main: str, *arguments: str, heap_mb: int = 256, stdin: bytes = b"") -> Said:
    """Run the class `main` to its end."""
    command = KafkaRuntime.ready(java_home()).command(main, arguments, heap_mb=heap_mb, options=_UTF8)
    done = subprocess.run(command.argv, env=dict(command.env), capture_output=True, input=stdin, check=False, timeout=240)
    lines = done.stderr.decode().splitlines(keepends=True)
    return Said(done.returncode, done.stdout, "".join(line for line in lines if not line.startswith("SLF4J")))


def own_dump_log(files: Sequence[object], *options: str) -> Said:
    """Kafka's `DumpLogSegments` on `files`."""
    return kafka_tool(DUMP_LOG, *options, "--files", ",".join(map(str, files)))
