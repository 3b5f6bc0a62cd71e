"""What a report tells of the standalone home: what runs on the data folder, its objects, its figures, its Kafka, its logs.

1. thread dumps are asked for  2. versions, settings, host, processes  3. objects and figures, from the controller  4. metrics and health
5. Kafka (and, without a controller, the objects in it)  6. thread dumps  7. logs. Each is tried, whatever came of the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from headrace.base.config import Loaded
from headrace.base.errors import Terminal
from headrace.core.report import Report
from headrace.home.report.host import collect_host, collect_versions, environment_of, processes, shown_environment
from headrace.home.report.kafka import collect_kafka
from headrace.kafka.cluster.folder import ClusterFolder
from headrace.kafka.cluster.layout import Layout, NodeLayout
from headrace.kafka.cluster.process import running_pid
from headrace.kafka.settings import KafkaSettings
from headrace.standalone.client import Client
from headrace.standalone.datadir import DataDir, PartState, RunState
from headrace.standalone.dumps import ThreadDumps
from headrace.standalone.process import session_members, start_ticks

Json = dict[str, Any]
_HTTP_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to collect from. `server`: another controller than that of the data folder; `kafka` names the Kafka, if there is one;
    `log_bytes`: how much of the end of each log.
    """

    loaded: Loaded
    folder: DataDir
    kafka: Callable[[], KafkaSettings | None]
    server: str = ""
    log_bytes: int = 1 << 20


def collect(report: Report, wanted: Wanted) -> None:
    """Everything, as far as it can be had."""
    _Collector(report, wanted).run()


class _Collector:
    def __init__(self, report: Report, wanted: Wanted) -> None:
        self._report = report
        self._wanted = wanted
        self._folder = wanted.folder
        self._cluster = ClusterFolder(wanted.folder.path / "cluster")
        self._run: RunState | None = None
        self._layout: Layout | None = None

    def run(self) -> None:
        report = self._report
        report.learn(dict(os.environ))
        with report.trying(str(self._folder.run_file)):
            self._run = self._folder.read_run()
        with report.trying(str(self._cluster.path)):
            self._layout = self._cluster.layout()
            report.learn({"password": list(self._layout.passwords.values()) if self._layout else []})
        pids = list(self._pids())
        dumps = ThreadDumps(self._outputs(), pids)
        with report.section("versions"):
            collect_versions(report)
        with report.section("settings"):
            report.add("settings.yaml", [asdict(one) for one in self._wanted.loaded.listing()])
            self._server_properties()
        with report.section("host"):
            collect_host(report, [self._folder.path])
        with report.section("processes"):
            self._processes(pids)
        found = self._only_cluster
        if not self._only_cluster:
            with report.section("resources"):
                found = self._objects()
            with report.section("figures"):
                self._figures()
        with report.section("kafka"):
            self._kafka(store=not found)
        with report.section("threads"):
            dumps.collect(report)
        with report.section("logs"):
            self._logs()

    @property
    def _only_cluster(self) -> bool:
        """Whether the folder has a Kafka cluster in it, and a Headrace was not meant to run."""
        return self._layout is not None and self._run is None and not self._wanted.server

    def _parts(self) -> Iterator[PartState]:
        return iter(self._run.parts.values() if self._run else ())

    def _pids(self) -> Iterator[int]:
        """All processes that the folder names: those of `headrace up` that are still the same, with their sessions, and the cluster's."""
        for part in self._parts():
            if part.pid and start_ticks(part.pid) == part.started:
                yield from session_members(part.pid)
        for node in self._nodes():
            pid = running_pid(self._cluster.node(node))
            if pid is not None:
                yield pid

    def _outputs(self) -> dict[str, Path]:
        """Where these processes write to."""
        parts = {path.stem: path for path in _logs_in(self._folder.path / "logs") if path.suffix == ".log"}
        return parts | {f"node-{node.id}": self._node(node.id) / "kafka.out" for node in self._nodes()}

    def _nodes(self) -> Sequence[NodeLayout]:
        return self._layout.nodes if self._layout else ()

    def _node(self, number: int) -> Path:
        return self._cluster.path / f"node-{number}"

    def _server_properties(self) -> None:
        files = {"kafka": self._folder.kafka / "server.properties"}
        files |= {f"node-{node.id}": self._node(node.id) / "server.properties" for node in self._nodes()}
        for name, path in files.items():
            if path.exists():
                with self._report.trying(str(path)):
                    self._report.add_config(f"configs/{name}.properties", path.read_text(errors="replace"))

    def _processes(self, pids: list[int]) -> None:
        report = self._report
        if self._run is None and not self._only_cluster:
            report.miss("run.json", f"there is none: no `headrace up` has run on {self._folder.path}")
        elif self._run is not None:
            report.add("run.yaml", {**asdict(self._run), "inUse": self._folder.in_use()})
            for part in self._parts():
                if part.state not in ("READY", "EXTERNAL"):
                    report.miss(part.name, f"its state is {part.state}")
        for node in self._nodes():
            if running_pid(self._cluster.node(node)) is None:
                report.miss(f"node {node.id} of the local cluster", "it does not run")
        report.add("processes.yaml", processes(pids))
        for part in self._parts():
            if part.pid in pids:
                variables = environment_of(part.pid)
                report.learn(variables)
                report.add(f"environment/{part.name}.yaml", shown_environment(variables))

    def _objects(self) -> bool:
        """Whether a controller gave all of them."""
        report, seen, whole = self._report, set(), True
        with self._client() as client:
            for kind in client.types():
                if (kind.group, kind.kind) in seen:
                    continue
                seen.add((kind.group, kind.kind))
                try:
                    items = client.select(kind, None)["items"]
                except Exception as error:
                    whole = False
                    report.miss(kind.plural, str(error))
                    continue
                for item in items:
                    place = f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
                    full = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
                    report.add_object(f"resources/{kind.kind.lower()}/{place}.yaml", full, f"{kind.kind.lower()}/{place}")
        return whole

    def _figures(self) -> None:
        report = self._report
        with report.trying("figures"), self._client() as client:
            report.add("figures.yaml", client.figures())
        for part in self._parts():
            if part.operations:
                with report.trying(f"health of {part.name}"):
                    answers = {page: _page(f"{part.operations}/{page}") for page in ("healthz", "readyz")}
                    report.add(f"health/{part.name}.yaml", answers)
                with report.trying(f"metrics of {part.name}"):
                    report.add(f"metrics/{part.name}.txt", _page(f"{part.operations}/metrics")["body"])

    def _kafka(self, *, store: bool) -> None:
        settings = self._wanted.kafka()
        if settings is None:
            self._report.miss("Kafka", "none runs here, and none is named")
        else:
            collect_kafka(self._report, settings, self._instance(), store=store)

    def _instance(self) -> str:
        chosen = self._wanted.loaded.settings.instance
        given = "instance" in self._wanted.loaded.origins
        return self._run.instance if self._run is not None and not given else chosen

    def _logs(self) -> None:
        files = {f"logs/{path.name}": path for path in _logs_in(self._folder.path / "logs")}
        for node in self._nodes():
            files |= {f"logs/node-{node.id}-{path.name}": path for path in _logs_in(self._node(node.id))}
        for name, path in files.items():
            with self._report.trying(str(path)):
                self._report.add(name, _end(path, self._wanted.log_bytes))

    def _client(self) -> Client:
        address = self._wanted.server or (self._run.address("controller") if self._run else "")
        if not address:
            raise Terminal("no controller runs here, and none is named", subject=f"data folder {self._folder.path}")
        return Client(address)


def _logs_in(folder: Path) -> list[Path]:
    """Logs, and what they were rotated to."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_file() and {".log", ".out"} & set(path.suffixes))


def _end(path: Path, most: int) -> str:
    """The end of a log, from the beginning of a line on."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        raw = file.read()
    if size <= most:
        return raw.decode(errors="replace")
    whole_lines = raw.partition(b"\n")[2].decode(errors="replace")
    return f"[the first {size - len(whole_lines.encode()):,} bytes are left out]\n{whole_lines}"


def _page(url: str) -> Json:
    answer = httpx.get(url, timeout=_HTTP_SECONDS, trust_env=False)
    return {"status": answer.status_code, "body": answer.text}
