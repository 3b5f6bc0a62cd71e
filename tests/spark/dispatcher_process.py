"""A dispatcher as a process of its own, so that tests can stop and kill it as an operator, or a kernel, would.

`python -m tests.spark.dispatcher_process JSON` runs one; `DispatcherProcess` starts that and knows its children.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.base import log
from headrace.base.errors import HeadraceError
from headrace.base.signals import until_asked
from headrace.dispatcher.config import ContractSource, DispatcherConfig, Only, Timing
from headrace.dispatcher.driver import run
from headrace.dispatcher.spec import Limits
from headrace.kafka import ports
from headrace.kafka.jars import spark_connector_jars
from headrace.kafka.java import java_home
from headrace.kafka.settings import KafkaSettings
from tests.support.processes import parent
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]


@dataclass
class DispatcherProcess:
    """One dispatcher of `instance`; `settings` are fields of `DispatcherConfig`, as JSON can hold them (`timing`, `limits`: objects)."""

    kafka: KafkaSettings
    instance: str
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> DispatcherProcess:
        """Start it in a session of its own; returns at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = ports.free_port()
        raw = {
            "bootstrap": self.kafka.bootstrap_servers,
            "instance": self.instance,
            "folder": str(self.folder),
            "ops_port": self.port,
            **self.settings,
        }
        with self.log_path.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.dispatcher_process", json.dumps(raw)],
                cwd=ROOT,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self

    @property
    def log_path(self) -> Path:
        return self.folder / "dispatcher.log"

    @property
    def log(self) -> str:
        """What it has said so far, all its lives together."""
        return self.log_path.read_text() if self.log_path.exists() else ""

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def jvm(self) -> int:
        """Process id of its JVM."""
        return next(pid for pid in self._family() if b"org.apache.spark.deploy.SparkSubmit" in _command(pid))

    @property
    def workers(self) -> list[int]:
        """Process ids of the Python workers that serve a partition now (idle ones, which Spark keeps, have no threads of ours)."""
        daemons = {pid for pid in self._family() if b"dispatcher.daemon" in _command(pid) and parent(pid) == self.jvm}
        return [pid for pid in self._family() if parent(pid) in daemons and _threads(pid) > 3]

    def _family(self) -> list[int]:
        """All processes of its session (the Python workers have a group of their own)."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.getsid(int(entry.name)) == self.process.pid:
                        found.append(int(entry.name))
                except ProcessLookupError:
                    continue
        return found

    def get(self, page: str) -> tuple[int, str]:
        """Status and body of a page of its operations endpoint; status 0 while it does not listen."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", page)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def wait_ready(self, timeout: float = 300.0) -> None:
        """Wait until it says it is ready."""

        def ready() -> bool:
            assert self.process.poll() is None, self.log[-4_000:]
            return self.get("/readyz")[0] == 200

        eventually(ready, timeout, f"ready: {self.get('/readyz')}", interval=0.1)

    def stop(self, timeout: float = 60.0) -> int:
        """Ask it to stop, as a supervisor does; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        finally:
            self._kill_rest()

    def kill(self) -> None:
        """kill -9 of the driver, and of what is left of its session, as the supervisor does."""
        self.process.kill()
        self.process.wait()
        self._kill_rest()

    def _kill_rest(self) -> None:
        for pid in self._family():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _threads(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def config_of(raw: dict[str, Any]) -> DispatcherConfig:
    """The configuration that `DispatcherProcess` passes."""
    folder = Path(raw.pop("folder"))
    contract = f"{raw['instance']}.contract"
    file = raw.pop("file", "")
    return DispatcherConfig(
        kafka=KafkaSettings(raw.pop("bootstrap")),
        contract=ContractSource(contract, Path(file) if file else None),
        work=folder / "work",
        logs=folder,
        java_home=java_home(os.environ.get("HEADRACE_JAVA", "auto")).for_spark,
        connector=tuple(spark_connector_jars()),
        only=tuple(Only.parse(text) for text in raw.pop("only", ())),
        timing=Timing(**raw.pop("timing", {})),
        limits=Limits(**raw.pop("limits", {})),
        **raw,
    )


def main() -> int:
    """Run until SIGTERM; exit status 1 and the reason in the log when it ends by itself."""
    log.configure()
    stop = until_asked()
    try:
        run(config_of(json.loads(sys.argv[1])), stop)
    except HeadraceError as error:
        print(f"ended: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
