"""A kubelet of one container per pod: what a pod's container would run is started as a process here, on the loopback address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from headrace.kube.api import Refused, connect
from tests.kube.cluster import Cluster

Json = dict[str, Any]
ADDRESS = "127.0.0.1"
_NOW = "2026-01-01T00:00:00Z"


class Kubelet:
    """Runs the pods of `namespace` with the labels `selector`, from `start` to `close`. Its image is the code of this test run."""

    def __init__(self, cluster: Cluster, namespace: str, selector: str, folder: Path) -> None:
        self._api = connect(str(cluster.kubeconfig))
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._query = {"labelSelector": selector}
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: set[str] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        for process in self._processes.values():
            _end(process)

    @property
    def running(self) -> dict[str, int]:
        """Name of a pod -> process id of its container, while it lives."""
        return {name: process.pid for name, process in list(self._processes.items()) if process.poll() is None}

    def processes(self, name: str, word: str) -> list[int]:
        """The processes within a pod that have `word` in their command line."""
        return [pid for pid in _session(self._processes[name].pid) if word in _command(pid)]

    def logs(self) -> str:
        """The ends of what the containers printed."""
        return "\n".join(
            f"--- {one.name}\n{one.read_text(errors='replace')[-2500:]}" for one in sorted(self._folder.glob("*.log"))
        )

    def _run(self) -> None:
        while not self._closing.wait(0.2):
            pods = {pod["metadata"]["name"]: pod for pod in self._api.get(self._pods, self._query)["items"]}
            for name, process in list(self._processes.items()):
                if name not in pods:
                    _end(process)
            for name, pod in pods.items():
                if name not in self._processes:
                    self._processes[name] = self._start(name, pod)
                    self._tell(name, pod, "Running", {"running": {"startedAt": _NOW}})
                elif (code := self._processes[name].poll()) is not None and name not in self._ended:
                    self._ended.add(name)
                    self._tell(name, pod, "Failed", {"terminated": {"exitCode": code % 256, "finishedAt": _NOW}})

    def _start(self, name: str, pod: Json) -> subprocess.Popen[bytes]:
        container = pod["spec"]["containers"][0]
        fields = {"metadata.name": name, "status.podIP": ADDRESS}
        env = {key: value for key, value in os.environ.items() if not key.startswith(("HEADRACE_", "SPARK_"))}
        env |= {key: value for key, value in os.environ.items() if key == "HEADRACE_CACHE_DIR"}
        for entry in container["env"]:
            if entry["name"] != "HOME":
                env[entry["name"]] = entry["value"] if "value" in entry else fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        # Volumes of the pod's own.
        env |= {"SPARK_LOCAL_DIRS": str(self._folder / name), "TMPDIR": str(self._folder)}
        with (self._folder / f"{name}.log").open("wb") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "headrace", *container["args"]],
                env=env,
                cwd=self._folder,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _tell(self, name: str, pod: Json, phase: str, state: Json) -> None:
        container = pod["spec"]["containers"][0]
        ready = phase == "Running"
        one = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0, "ready": ready}
        status = {
            "phase": phase,
            "podIP": ADDRESS,
            "podIPs": [{"ip": ADDRESS}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{**one, "state": state}],
        }
        try:
            self._api.patch(f"{self._pods}/{name}/status", {"status": status})
        except Refused as error:
            if error.code != 404:
                raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a container: all processes of its session."""
    for pid in _session(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def _session(leader: int) -> list[int]:
    found = []
    for one in Path("/proc").iterdir():
        try:
            if one.name.isdigit() and os.getsid(int(one.name)) == leader:
                found.append(int(one.name))
        except ProcessLookupError:
            continue
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
