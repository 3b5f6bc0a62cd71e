"""Tutorials that are run: their `console` blocks are commands (`$ `) with the output that belongs to them.

    python -m tests.support.tutorial docs/tutorials/kafka-hands-on.md

runs a tutorial in an empty folder and writes the output into it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_FENCE = "```console"
_END = "```"
_ADDRESS = re.compile(r"\b127\.0\.0\.1:\d+")
_VOLATILE: Sequence[tuple[re.Pattern[str], str]] = (
    (_ADDRESS, "ADDRESS"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "TIME"),
    (re.compile(r"TopicId: \S+"), "TopicId: ID"),
    (re.compile(r'"topicId":"[^"]+"'), '"topicId":"ID"'),
    (re.compile(r"crc: \d+"), "crc: CRC"),
    (re.compile(r"producerId: \d+"), "producerId: ID"),
    (re.compile(r"partitionLeaderEpoch: \d+"), "partitionLeaderEpoch: EPOCH"),
    (re.compile(r'"leaderEpoch":\d+'), '"leaderEpoch":EPOCH'),
    (re.compile(r"\b(running|starting|stopped)\s+\d+"), r"\1 PID"),
    (re.compile(r"^\| offset: \d+ (.*) sequence: \d+ (.*\"type\":\"1\")"), r"| offset: N \1 sequence: N \2"),
    (re.compile(r"Coordinator: \d+"), "Coordinator: ID"),
    (re.compile(r"^(__\w+ +\d+ +\d+) +(\d+) +\2$"), r"\1 ID ID"),
    (re.compile(r"report-[\d_-]+"), "report-TIME"),
)
_PARTITION_ROW = re.compile(r"^\s*(\d+)\s+\d\s+(\d(?:,\d)+)\s+(\d(?:,\d)*)\s+(.*)$")


@dataclass(frozen=True)
class Step:
    """One command, and the lines that it is said to print."""

    command: str
    output: tuple[str, ...]


def steps(text: str) -> Iterator[Step]:
    """The commands of all blocks, in order."""
    for block in re.findall(rf"^{_FENCE}\n(.*?)^{_END}$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = part.rstrip("\n").split("\n")
            yield Step(command, tuple(output))


class Shell:
    """Runs commands as a user in `folder` would, `headrace` being the one of this project."""

    def __init__(self, folder: Path, **env: str) -> None:
        self._folder = folder
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HEADRACE_") or name == "HEADRACE_CACHE_DIR"
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._env = {**clean, **env, "PATH": path, "COLUMNS": "200"}

    def run(self, command: str) -> list[str]:
        """The lines that it prints, to standard output and standard error; a failure fails the test."""
        script = f"set -o pipefail\n{command}\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=280,
        )
        lines = done.stdout.splitlines()
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {lines[-5:]}"
        return lines


def comparable(lines: Sequence[str]) -> list[str]:
    """What has to be the same from one run to the next: without times, ids, addresses and checksums, in no order."""
    found = []
    for line in lines:
        row = _PARTITION_ROW.match(line)
        plain = f"{row[1]} LEADER {_sorted(row[2])} {_sorted(row[3])} {row[4]}" if row else line
        for pattern, word in _VOLATILE:
            plain = pattern.sub(word, plain)
        if plain.strip():
            found.append(" ".join(plain.split()))
    return sorted(found)


def _sorted(ids: str) -> str:
    return ",".join(sorted(ids.split(",")))


def _rewritten(text: str, shell: Shell) -> str:
    """The text with the output of each command replaced by what it prints."""

    def block(match: re.Match[str]) -> str:
        parts = []
        for step in steps(match[0]):
            lines = [line.rstrip() for line in shell.run(step.command)]
            parts.append("\n".join([f"$ {step.command}", *lines]).rstrip())
            print(parts[-1], flush=True)
        return f"{_FENCE}\n" + "\n\n".join(parts) + f"\n{_END}"

    return re.sub(rf"^{_FENCE}\n.*?^{_END}$", block, text, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    document = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        shell = Shell(Path(place))
        try:
            document.write_text(_rewritten(document.read_text(), shell))
        finally:
            shell.run("headrace kafka cluster down --kill || true")
