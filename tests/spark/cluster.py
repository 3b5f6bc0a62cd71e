"""A Spark standalone cluster on the loopback address: a master and workers, as processes that tests can kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyspark

from headrace.kafka import ports
from headrace.kafka.java import java_home
from tests.support.waiting import eventually


class Cluster:
    """Workers of `cores` slots each."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 4) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        port = ports.free_port()
        self.master = f"spark://127.0.0.1:{port}"
        folder.mkdir(parents=True, exist_ok=True)
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(port))
        eventually(lambda: _listens(port), 120, "the master")
        for number in range(workers):
            work = folder / f"work-{number}"
            options = ("--cores", str(cores), "--memory", "1g", "--work-dir", str(work), self.master)
            self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *options)

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home().for_spark),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "128m",
        }
        environment.pop("PYTHONPATH", None)
        with (self._folder / f"{name}.log").open("wb") as out:
            self._processes.append(
                subprocess.Popen(
                    [str(home / "bin/spark-class"), kind, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                    env=environment,
                    stdout=out,
                    stderr=out,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )

    @property
    def executors(self) -> list[int]:
        """Process ids of the executors' JVMs."""
        return [pid for pid in self._family() if b"CoarseGrainedExecutorBackend" in _command(pid)]

    @property
    def python_path_of_workers(self) -> set[str]:
        """`PYTHONPATH` of the Python processes that the executors have started."""
        found = set()
        for pid in self._family():
            if b"dispatcher.daemon" in _command(pid):
                for entry in _environment(pid).split(b"\0"):
                    if entry.startswith(b"PYTHONPATH="):
                        found.add(entry.decode())
        return found

    def _family(self) -> list[int]:
        sessions = {process.pid for process in self._processes}
        return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _session(int(one.name)) in sessions]

    def close(self) -> None:
        for pid in self._family():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self._processes:
            process.wait()


def base_python() -> str:
    """The Python that the virtual environment was made from: it has none of our packages, as that of another host."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
