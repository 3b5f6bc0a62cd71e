"""A local cluster as a whole: up, down, and its nodes one by one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Terminal
from headrace.base.files import write_atomically
from headrace.kafka.admin import Admin
from headrace.kafka.cluster.folder import ClusterFolder
from headrace.kafka.cluster.layout import Layout, NodeLayout, Security, User
from headrace.kafka.cluster.process import running_pid, start_detached, stop
from headrace.kafka.diagnosis import diagnose
from headrace.kafka.embedded import new_cluster_id
from headrace.kafka.folder import check_room
from headrace.kafka.jars import Progress
from headrace.kafka.java import JavaHome, java_home
from headrace.kafka.node import Listener, NodeConfig, render_log4j, render_properties
from headrace.kafka.runtime import SERVER, KafkaRuntime
from headrace.kafka.settings import KafkaSettings

_START_SECONDS = 300.0
_STOP_SECONDS = 30.0
_MECHANISM = "SCRAM-SHA-512"
_SHARED = {
    "auto.create.topics.enable": "false",
    "num.partitions": "3",
    "offsets.retention.minutes": "525600",
    "group.initial.rebalance.delay.ms": "0",
    # Small heaps: the cleaner's default buffer alone is 128 MiB.
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "metadata.max.idle.interval.ms": "5000",
}


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node as it is now; `pid` is None while it does not run, `registered` says that the cluster counts on it."""

    id: int
    roles: str
    address: str
    pid: int | None
    registered: bool
    log: Path


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The whole; `problem` says why the cluster does not answer, empty when it does."""

    cluster_id: str
    security: Security
    bootstrap: str
    nodes: tuple[NodeStatus, ...]
    problem: str


class LocalCluster:
    """The cluster kept in a folder. Only one command at a time changes it."""

    def __init__(self, folder: Path, *, java: JavaHome | None = None, cache: Path | None = None) -> None:
        self.folder = ClusterFolder(folder)
        self._java = java
        self._cache = cache

    @property
    def layout(self) -> Layout:
        """Raises `Terminal` when there is no cluster."""
        layout = self.folder.layout()
        if layout is None:
            raise Terminal(
                "there is no local cluster", subject=str(self.folder.path), hint="Make one: `headrace kafka cluster up`"
            )
        return layout

    def settings(self, user: User = User.ADMIN) -> KafkaSettings:
        """How `user` reaches it."""
        return self.folder.settings(self.layout, user)

    def up(self, layout: Layout, progress: Progress | None = None) -> Layout:
        """Start the cluster that is kept here, else make `layout` one and start that. Waits until all brokers serve.

        Raises `Terminal` with what a node's log says when it does not come up; what has started then goes on.
        """
        check_room(self.folder.path)
        with self._alone():
            kept = self.folder.layout()
            if kept is None:
                self.folder.create(layout)
                kept = layout
            runtime = KafkaRuntime.ready(self._java or java_home(cache=self._cache), progress, self._cache)
            self._start(runtime, kept, [node for node in kept.nodes if running_pid(self.folder.node(node)) is None])
        return kept

    def down(self, *, kill: bool = False) -> list[NodeLayout]:
        """Stop every node that runs, brokers first; the data stays. Returns those that had to be killed."""
        with self._alone():
            return self._stop_all(self.layout, kill=kill)

    def delete(self) -> Layout:
        """Stop it and remove everything; returns what it was."""
        with self._alone():
            layout = self.layout
            self._stop_all(layout, kill=True)
            self.folder.delete()
        return layout

    def start_node(self, number: int, progress: Progress | None = None) -> bool:
        """Start one node and wait until it serves; whether it did not run before."""
        with self._alone():
            layout = self.layout
            node = layout.node(number)
            if running_pid(self.folder.node(node)) is not None:
                return False
            self._start(KafkaRuntime.ready(self._java or java_home(cache=self._cache), progress, self._cache), layout, [node])
            return True

    def stop_node(self, number: int, *, kill: bool = False) -> bool:
        """Stop one node, or kill it as a crash would; whether it ran before."""
        with self._alone():
            node = self.layout.node(number)
            if running_pid(self.folder.node(node)) is None:
                return False
            stop(self.folder.node(node), Deadline(_STOP_SECONDS), kill=kill)
            return True

    def status(self) -> ClusterStatus:
        """How it is now."""
        layout = self.layout
        pids = {node.id: running_pid(self.folder.node(node)) for node in layout.nodes}
        registered: Iterable[int] = ()
        problem = ""
        if not any(pids.values()):
            problem = "no node runs"
        else:
            try:
                registered = Admin(self.folder.settings(layout), timeout=5.0).cluster_info().brokers
            except HeadraceError as error:
                problem = str(error)
        nodes = tuple(
            NodeStatus(
                node.id,
                node.roles,
                f"127.0.0.1:{node.port or node.controller_port}",
                pids[node.id],
                node.id in registered if node.is_broker else pids[node.id] is not None,
                self.folder.node(node) / "kafka.log",
            )
            for node in layout.nodes
        )
        return ClusterStatus(layout.cluster_id, layout.security, layout.bootstrap, nodes, problem)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        lock = self.folder.lock()
        lock.take()
        try:
            yield
        finally:
            lock.release()

    def _start(self, runtime: KafkaRuntime, layout: Layout, nodes: list[NodeLayout]) -> None:
        self._format(runtime, layout, [node for node in nodes if not self._storage(node).is_dir()])
        for node in nodes:
            self._write_properties(layout, node, self._storage(node))
            write_atomically(
                self.folder.node(node) / "log4j2.properties", render_log4j(self.folder.node(node) / "kafka.log").encode()
            )
        for node in nodes:
            folder = self.folder.node(node)
            properties, log4j = folder / "server.properties", folder / "log4j2.properties"
            command = runtime.command(SERVER, [str(properties)], heap_mb=layout.heap_mb, log4j=log4j)
            start_detached(command.argv, command.env, folder)
        self._wait(layout, nodes, Deadline(_START_SECONDS))

    def _format(self, runtime: KafkaRuntime, layout: Layout, nodes: list[NodeLayout]) -> None:
        """Make the storage of `nodes`: formatted once by Kafka's own tool, for a controller, then copied with a name for each."""
        if not nodes:
            return
        model = self.folder.path / "storage.new"
        shutil.rmtree(model, ignore_errors=True)
        controller = layout.controllers[0]
        self._write_properties(layout, controller, model)
        users = [f"{_MECHANISM}=[name={user},password={password}]" for user, password in layout.passwords.items()]
        arguments = [word for user in users for word in ("--add-scram", user)]
        runtime.format_storage(self.folder.node(controller) / "server.properties", layout.cluster_id, arguments)
        for node in nodes:
            unfinished = self.folder.node(node) / "log.new"
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(model, unfinished)
            names = {"version": "1", "cluster.id": layout.cluster_id, "node.id": str(node.id), "directory.id": new_cluster_id()}
            write_atomically(unfinished / "meta.properties", render_properties(names).encode())
            unfinished.rename(self._storage(node))
        shutil.rmtree(model)

    def _storage(self, node: NodeLayout) -> Path:
        return self.folder.node(node) / "log"

    def _write_properties(self, layout: Layout, node: NodeLayout, storage: Path) -> None:
        config = node_config(layout, node, storage, self.folder)
        write_atomically(self.folder.node(node) / "server.properties", render_properties(config.properties()).encode(), 0o600)

    def _wait(self, layout: Layout, nodes: list[NodeLayout], deadline: Deadline) -> None:
        """Wait until the brokers among `nodes` are registered; without brokers among them, until they have lived for a moment."""
        wanted = {node.id for node in nodes if node.is_broker}
        admin = Admin(self.folder.settings(layout), timeout=2.0)
        while wanted:
            for node in nodes:
                if running_pid(self.folder.node(node)) is None:
                    raise self._diagnosis(node, "ended before the cluster was ready")
            try:
                if wanted <= set(admin.cluster_info().brokers):
                    return
            except HeadraceError:
                pass
            if deadline.expired:
                missing = next(node for node in nodes if node.id in wanted)
                raise self._diagnosis(missing, "did not join the cluster in time")
            time.sleep(0.1)

    def _diagnosis(self, node: NodeLayout, what: str) -> HeadraceError:
        folder = self.folder.node(node)
        return diagnose([folder / "kafka.log", folder / "kafka.out"], what, f"node {node.id} of the local cluster")

    def _stop_all(self, layout: Layout, *, kill: bool) -> list[NodeLayout]:
        """Brokers one after the other, so that each can hand over what it leads; then the controllers."""
        forced = []
        brokers_first = sorted(layout.nodes, key=lambda node: not node.is_broker)
        for number, node in enumerate(brokers_first):
            # Combined nodes: without a majority of controllers nothing can be handed over any more.
            alone = node.is_broker and node.is_controller and len(brokers_first) - number <= len(layout.controllers) // 2
            patience = 3.0 if alone else _STOP_SECONDS
            if not stop(self.folder.node(node), Deadline(patience), kill=kill) and not alone:
                forced.append(node)
        return [] if kill else forced


def node_config(layout: Layout, node: NodeLayout, storage: Path, folder: ClusterFolder) -> NodeConfig:
    """The configuration of one node."""
    copies = len(layout.brokers)
    replication = {
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(min(2, copies)),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(min(2, copies)),
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(min(2, copies)),
    }
    listeners = (_listener(layout, node, folder),) if node.is_broker else ()
    sasl = {"sasl.mechanism.inter.broker.protocol": _MECHANISM} if layout.security is Security.SASL_SSL else {}
    return NodeConfig(
        node_id=node.id,
        log_dir=storage,
        voters={one.id: f"127.0.0.1:{one.controller_port}" for one in layout.controllers},
        listeners=listeners,
        controller_port=node.controller_port or None,
        overrides={**_SHARED, **replication, **(sasl if node.is_broker else {})},
    )


def _listener(layout: Layout, node: NodeLayout, folder: ClusterFolder) -> Listener:
    protocol = layout.security.protocol
    properties: dict[str, str] = {}
    if protocol.tls:
        properties = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder.broker_pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder.authority),
            "ssl.client.auth": "none" if protocol.sasl else "required",
        }
    if protocol.sasl:
        login = "org.apache.kafka.common.security.scram.ScramLoginModule"
        admin = f'username="{User.ADMIN}" password="{layout.passwords[User.ADMIN]}"'
        properties |= {
            "sasl.enabled.mechanisms": _MECHANISM,
            f"{_MECHANISM.lower()}.sasl.jaas.config": f"{login} required {admin};",
        }
    return Listener(protocol.value, node.port, protocol, properties=properties)
