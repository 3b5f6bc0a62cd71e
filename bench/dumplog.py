"""`headrace kafka dump-log` against Kafka's own `DumpLogSegments`: seconds, CPU seconds and memory on one segment that a real broker wrote.

    .venv/bin/python -m bench.dumplog [--mb 1024] [--record 1000] [--codec none] [--json FILE]

Both read the same file and print to a file on the same disk; what they print is compared. The file is in the page cache for both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.system import proportional, tree
from headrace.cli.output import print_table
from headrace.kafka.admin import Admin
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.java import java_home
from headrace.kafka.runtime import KafkaRuntime
from headrace.kafka.tools import tool_command

MODES: Mapping[str, Sequence[str]] = {
    "batches": (),
    "records": ("--deep-iteration",),
    "records with data": ("--deep-iteration", "--print-data-log"),
}

_SAMPLE = 0.1


@dataclass(frozen=True)
class Run:
    """One tool on the segment, in one mode."""

    mode: str
    tool: str
    seconds: float
    cpu_seconds: float
    memory_mb: float
    printed_mb: float
    same: bool


@contextmanager
def segment(mb: int, record: int, codec: str) -> Iterator[Path]:
    """A segment of about `mb` MiB, written by Kafka's own producer through a broker that has stopped since."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        broker = EmbeddedKafka(folder / "kafka", java=java_home())
        with broker:
            Admin(broker.settings).create_topic("bench", 1, config={"segment.bytes": str(2_000_000_000)})
            number = mb * 1024 * 1024 // record
            words = f"--topic bench --num-records {number} --record-size {record} --throughput -1".split()
            words += f"--command-property bootstrap.servers={broker.bootstrap} compression.type={codec}".split()
            command = tool_command(KafkaRuntime.ready(java_home()), ["kafka-producer-perf-test", *words], {})
            subprocess.run(command.argv, env=dict(command.env), check=True, stdout=subprocess.DEVNULL)
        yield next((folder / "kafka" / "log" / "bench-0").glob("*.log"))


def measure(argv: Sequence[str], env: Mapping[str, str], out: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and the largest memory (MiB) of a process and those below it, whose output goes to `out`."""
    started = time.monotonic()
    memory = 0
    with out.open("wb") as file:
        process = subprocess.Popen(argv, env=dict(env), stdout=file, stderr=subprocess.DEVNULL)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            # Not what the kernel says in the end: that counts the memory of the process that started it, too.
            memory = max(memory, sum(proportional(one) for one in tree(process.pid)))
            time.sleep(_SAMPLE)
        process.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, memory / 1024


def compare(path: Path, scratch: Path) -> Iterator[Run]:
    """Both tools in all modes."""
    runtime = KafkaRuntime.ready(java_home())
    path.read_bytes()
    for mode, options in MODES.items():
        theirs = tool_command(runtime, ["kafka-dump-log", *options, "--files", str(path)], {})
        ours = [sys.executable, "-m", "headrace", "kafka", "dump-log", *options, "--files", str(path)]
        digest = ""
        for tool, argv, env in (("Kafka", theirs.argv, theirs.env), ("Headrace", ours, os.environ)):
            seconds, cpu, memory = measure(argv, env, scratch)
            with scratch.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            digest = digest or found
            yield Run(mode, tool, seconds, cpu, memory, scratch.stat().st_size / 2**20, found == digest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--record", type=int, default=1000)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with segment(chosen.mb, chosen.record, chosen.codec) as path, tempfile.NamedTemporaryFile() as scratch:
        print(f"segment of {path.stat().st_size / 2**20:.0f} MiB, records of {chosen.record} bytes, {chosen.codec}")
        runs = list(compare(path, Path(scratch.name)))
    rows = [[run.mode, run.tool, run.seconds, run.cpu_seconds, run.memory_mb, run.printed_mb, run.same] for run in runs]
    print_table(["mode", "tool", "seconds", "CPU s", "memory MiB", "printed MiB", "same"], rows)
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(run) for run in runs], indent=2) + "\n")


if __name__ == "__main__":
    main()
