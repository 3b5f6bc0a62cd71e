"""A whole Headrace for a benchmark: `headrace up` in a temporary folder on free ports, the Go load generator, the counting sink."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from headrace.base.classarchive import RECORDING_SECONDS
from headrace.base.errors import Terminal

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("HEADRACE_CACHE_DIR") or Path.home() / ".cache" / "headrace") / "bench"
HEADRACE = [str(Path(sys.executable).parent / "headrace")]
FREE_PORTS = {
    "HEADRACE_KAFKA_PORT": "0",
    "HEADRACE_RECEIVER_PORT": "0",
    "HEADRACE_RECEIVER_OPS_PORT": "0",
    "HEADRACE_CONTROLLER_PORT": "0",
    "HEADRACE_CONTROLLER_OPS_PORT": "0",
    "HEADRACE_DISPATCHER_OPS_PORT": "0",
}


def build_tools() -> None:
    """Build `bench/load` and `bench/sink` into the cache; needs Go."""
    if shutil.which("go") is None:
        raise Terminal(
            "Go is not installed", subject="bench", hint="Install Go 1.26 or newer: the load generator is written in it"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    for tool in ("load", "sink"):
        subprocess.run(["go", "build", "-o", str(CACHE / tool), "."], cwd=HERE / tool, check=True)


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first truthy value of `condition`; raises `Terminal` when there is none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise Terminal(f"did not happen within {seconds:g} s: {what}", subject="bench")


class Sink:
    """The counting subscriber. It is asked over one connection: a client of its own for each question would cost what is measured."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def get(self, path: str) -> Any:
        answer = self._client.get(path)
        return answer.json() if "json" in answer.headers.get("content-type", "") else None

    def total(self) -> int:
        return int(self.get("/count")["total"])


@contextmanager
def sink(*flags: str) -> Iterator[Sink]:
    """Start a sink on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = subprocess.Popen([str(CACHE / "sink"), "-addr", address, *flags])
    try:
        wait_for(lambda: _answers(f"http://{address}/count"), 10, "sink answers")
        yield Sink(f"http://{address}")
    finally:
        process.terminate()
        process.wait()


def load(url: str, *flags: str) -> dict[str, Any]:
    """Run the load generator to its end and return its figures."""
    done = subprocess.run([str(CACHE / "load"), "-url", url, *flags], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise Terminal(done.stderr.strip() or "no output", subject="bench/load")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


class System:
    """A running `headrace up`."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._environment = environment
        self._used: dict[str, dict[tuple[int, str], float]] = {}

    @property
    def run(self) -> dict[str, Any]:
        run: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return run

    @property
    def receiver(self) -> str:
        return str(self.run["parts"]["receiver"]["address"])

    def headrace(self, *words: str, stdin: str = "") -> str:
        """Run a command against this system; its standard output."""
        done = subprocess.run(
            [*HEADRACE, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment,
            cwd=self.folder,
        )
        if done.returncode:
            raise Terminal(done.stderr.strip() or done.stdout.strip(), subject="headrace " + " ".join(words))
        return done.stdout

    def apply(self, *objects: dict[str, Any], timeout: str = "120s") -> None:
        """Apply and wait until all are Ready."""
        self.headrace("apply", "-f", "-", "--wait", "--timeout", timeout, stdin=yaml.safe_dump_all(objects))

    def processes(self, part: str) -> list[int]:
        """The process of a part and all below it."""
        return list(tree(int(self.run["parts"][part]["pid"])))

    def cpu(self, part: str) -> float:
        """CPU seconds that a part has used so far, all its processes together. Those that have ended count as when they were last seen: not
        every parent waits for its children, so the system does not always know.
        """
        used = self._used.setdefault(part, {})
        used.update(found for pid in self.processes(part) if (found := _cpu(pid)))
        return sum(used.values())

    def memory(self, part: str) -> float:
        """Proportional set size of a part in MiB, all its processes together."""
        return sum(proportional(pid) for pid in self.processes(part)) / 1024


@contextmanager
def system(**settings: str) -> Iterator[System]:
    """Start one; `settings` are environment variables without their prefix (`DISPATCHER_MEMORY_MB="512"`)."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    data = folder / ".headrace"
    environment = {**os.environ, **FREE_PORTS, "HEADRACE_DATA_DIR": str(data)}
    environment |= {f"HEADRACE_{name}": value for name, value in settings.items()}
    with (folder / "up.log").open("w") as log:
        process = subprocess.Popen([*HEADRACE, "up"], env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        one = System(data, environment)
        wait_for(lambda: _running(one, process), 180, f"headrace up is running (see {folder}/up.log)")
        yield one
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60 + 2 * RECORDING_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def broker(name: str, partitions: int = 10) -> list[dict[str, Any]]:
    """A Broker whose topic has `partitions`."""
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-config"},
        "data": {"default.topic.partitions": str(partitions), "default.topic.replication.factor": "1"},
    }
    spec = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{name}-config"}}
    return [config, {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": name}, "spec": spec}]


def triggers(
    broker_name: str,
    subscriber: str,
    count: int,
    *,
    name: str = "",
    filtered: bool = False,
    order: str = "unordered",
    start: str = "latest",
) -> list[dict[str, Any]]:
    """`count` Triggers `NAME-i` (default: the Broker's name) with paths `/NAME/i` at the sink; `filtered`: Trigger i takes type
    `com.example.i` only."""
    name = name or broker_name
    annotations = {"kafka.eventing.knative.dev/delivery.order": order, "headrace.dev/initial-offset": start}
    return [
        {
            "apiVersion": "eventing.knative.dev/v1",
            "kind": "Trigger",
            "metadata": {"name": f"{name}-{i}", "annotations": annotations},
            "spec": {
                "broker": broker_name,
                "filter": {"attributes": {"type": f"com.example.{i}"}} if filtered else {},
                "subscriber": {"uri": f"{subscriber}/{name}/{i}"},
            },
        }
        for i in range(1, count + 1)
    ]


def names(objects: Sequence[dict[str, Any]]) -> list[str]:
    """`kind/name` of each."""
    return [f"{one['kind'].lower()}/{one['metadata']['name']}" for one in objects]


def _running(one: System, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise Terminal(f"ended with status {process.returncode}", subject="headrace up", hint="Its output was in up.log")
    try:
        return bool(one.run["state"] == "RUNNING")
    except (OSError, ValueError):
        return False


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).status_code == 200
    except httpx.HTTPError:
        return False


def tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree(int(child))


def _cpu(pid: int) -> tuple[tuple[int, str], float] | None:
    """Process id and start time, and the CPU seconds of that process; None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (pid, fields[19]), sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def proportional(pid: int) -> int:
    """Proportional set size in KiB; 0 of a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
