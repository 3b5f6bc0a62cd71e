"""`headrace kafka cluster`: a local cluster, and failures on purpose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli.output import Format, OutputOption, error_console, print_table
from headrace.cli.settings import DataDirOption, loaded

if TYPE_CHECKING:
    from headrace.kafka.cluster.layout import Layout
    from headrace.kafka.cluster.local import LocalCluster
    from headrace.kafka.jars import Fetching

app = typer.Typer()

NodeArgument = Annotated[int, typer.Argument(metavar="N", help="Id of the node, as `cluster status` shows it.")]
KillOption = Annotated[bool, typer.Option("--kill", help="At once, as a crash would (SIGKILL).")]


@app.command()
def up(
    brokers: Annotated[int, typer.Option("--brokers", help="1 or 3.")] = 3,
    controllers: Annotated[
        int, typer.Option("--controllers", help="0: the brokers are the controllers too; else 1 or 3 processes of their own.")
    ] = 0,
    security: Annotated[
        str, typer.Option("--security", help="plaintext, ssl or sasl_ssl; certificates and users are made.")
    ] = "plaintext",
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65335,
            help="Of the first broker (default: setting kafka.port, 9092), the others' are each 100 higher; 0: any free ones.",
        ),
    ] = None,
    heap_mb: Annotated[int, typer.Option("--heap-mb", min=96, help="Heap of each process in MiB.")] = 256,
    data_dir: DataDirOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Start the local cluster, made the first time; its processes go on when this command has ended.

    A cluster that exists is started as it was made: `reset` or `down --delete` come first to make another.
    """
    from headrace.kafka.cluster.layout import Layout, Security

    if security not in set(Security):
        raise UsageError("no such security", subject=f"--security {security}", hint=f"Use {', '.join(Security)}")
    cluster = _cluster(data_dir)
    first = loaded(None, {"kafka.port": port}).settings.kafka.port
    wanted = Layout.choose(brokers, controllers, Security(security), first, heap_mb)
    kept = cluster.folder.layout()
    if kept is not None and _shape(kept) != _shape(wanted):
        _note(f"The cluster that was made before is started: {_words(kept)}.")
    cluster.up(wanted, _fetching)
    _print(cluster, output)


@app.command()
def down(
    delete: Annotated[bool, typer.Option("--delete", help="Delete its data too.")] = False,
    kill: KillOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Stop the local cluster; its data stays, unless it is to be deleted."""
    cluster = _cluster(data_dir)
    for node in cluster.down(kill=kill or delete):
        _note(f"Node {node.id} did not stop in time and was killed.")
    if delete:
        cluster.delete()
    _note("Stopped." if not delete else "Stopped and deleted.")


@app.command()
def status(data_dir: DataDirOption = None, output: OutputOption = Format.TABLE) -> None:
    """Show the local cluster. Exit code 1 when not every node runs."""
    if not _print(_cluster(data_dir), output):
        raise typer.Exit(1)


@app.command()
def reset(data_dir: DataDirOption = None, output: OutputOption = Format.TABLE) -> None:
    """Throw the local cluster's data away and start it afresh, of the same size, ports and security."""
    from headrace.kafka.embedded import new_cluster_id

    cluster = _cluster(data_dir)
    cluster.up(replace(cluster.delete(), cluster_id=new_cluster_id()), _fetching)
    _print(cluster, output)


@app.command("stop-broker")
def stop_broker(node: NodeArgument, kill: KillOption = False, data_dir: DataDirOption = None) -> None:
    """Stop one node of the local cluster."""
    stopped = _cluster(data_dir).stop_node(node, kill=kill)
    _note(f"Node {node} {'was killed' if kill else 'has stopped'}." if stopped else f"Node {node} does not run.")


@app.command("start-broker")
def start_broker(node: NodeArgument, data_dir: DataDirOption = None) -> None:
    """Start one node of the local cluster again, and wait until it serves."""
    started = _cluster(data_dir).start_node(node, _fetching)
    _note(f"Node {node} serves." if started else f"Node {node} runs already.")


def _cluster(data_dir: str | None) -> LocalCluster:
    from headrace.kafka.cluster.local import LocalCluster
    from headrace.kafka.java import java_home

    settings = loaded(None, {"data_dir": data_dir}).settings
    return LocalCluster(Path(settings.data_dir) / "cluster", java=java_home(settings.kafka.java))


def _print(cluster: LocalCluster, output: Format) -> bool:
    """Print its state; whether all of it runs."""
    from headrace.kafka.cluster.layout import Security, User

    found = cluster.status()
    auth = None if found.security is Security.PLAINTEXT else str(cluster.folder.auth_file(User.ADMIN))
    nodes: list[dict[str, Any]] = [
        {
            "id": node.id,
            "roles": node.roles,
            "address": node.address,
            "pid": node.pid,
            "state": _state(node.pid, node.registered),
            "log": str(node.log),
            "logDir": str(node.log.parent / "log"),
        }
        for node in found.nodes
    ]
    data = {
        "clusterId": found.cluster_id,
        "security": found.security.value,
        "bootstrapServers": found.bootstrap,
        "kafkaAuth": auth,
        "commandConfig": str(cluster.folder.properties_file(User.ADMIN)),
        "problem": found.problem,
        "nodes": nodes,
    }
    columns = {"node": "id", "roles": "roles", "address": "address", "state": "state", "pid": "pid"}
    columns |= {"log folder": "logDir"} if output is Format.WIDE else {}
    rows = [[node[key] for key in columns.values()] for node in nodes]
    print_table(list(columns), rows, output=output, data=data)
    if output in (Format.TABLE, Format.WIDE):
        _note(f"\nBootstrap servers: {found.bootstrap}")
        if auth:
            _note(f"Credentials: --kafka-auth {auth}")
        if found.problem:
            _note(f"Problem: {found.problem}")
    return all(node.pid is not None and node.registered for node in found.nodes)


def _state(pid: int | None, registered: bool) -> str:
    return "stopped" if pid is None else "running" if registered else "starting"


def _shape(layout: Layout) -> tuple[object, ...]:
    return len(layout.brokers), [node.roles for node in layout.nodes], layout.security


def _words(layout: Layout) -> str:
    return f"{len(layout.brokers)} brokers, nodes {', '.join(f'{node.id} ({node.roles})' for node in layout.nodes)}, {layout.security}"


def _fetching(state: Fetching) -> None:
    if state.total and not state.done:
        _note(f"Fetching {state.total} jars of Kafka, once ...")


def _note(text: str) -> None:
    error_console().print(text, markup=False)
