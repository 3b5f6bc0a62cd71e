"""`pause`, `resume`, `top`: the lanes of Triggers and Subscriptions, held and watched."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli.figures import waiting
from headrace.cli.output import Format, OutputOption, console, print_data, print_table
from headrace.cli.selection import Selected, select
from headrace.cli.settings import DataDirOption, NamespaceOption, ServerOption, connect
from headrace.core.resources.annotations import PAUSED
from headrace.standalone.client import Client

Json = dict[str, Any]
Names = Annotated[list[str], typer.Argument(metavar="TYPE/NAME...", help="trigger/NAME or subscription/NAME.")]
_LANES = ("Trigger", "Subscription")
_FRESH_MS = 10_000
_REFRESH = 1.0


def pause(
    names: Names,
    namespace: NamespaceOption = "default",
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Hold the delivery of Triggers or Subscriptions; their events wait in Kafka."""
    _annotate(names, namespace, server, data_dir, "true", "paused")


def resume(
    names: Names,
    namespace: NamespaceOption = "default",
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Go on with the delivery of paused Triggers or Subscriptions, from where they were."""
    _annotate(names, namespace, server, data_dir, None, "resumed")


def top(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TYPE/NAME...]", help="Only these.")] = None,
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="Only this namespace.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one reading and end.")] = False,
    output: OutputOption = Format.TABLE,
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Watch the lanes: state per partition, lag, rate, in flight, retries, latency. Ctrl-C ends."""
    with connect(server, data_dir) as client:
        only = {one.word for one in lanes_of(client, names, namespace or "default")} if names else None
        if output in (Format.JSON, Format.YAML):
            print_data([asdict(row) for row in rows(client, namespace, only)], output)
        elif once or not sys.stdout.isatty():
            print_table(HEAD, [row.cells() for row in rows(client, namespace, only)], empty="No Trigger or Subscription.")
        else:
            _watch(client, namespace, only)


HEAD = [
    "name",
    "topic",
    "state",
    "lag",
    "rate/s",
    "in flight",
    "retrying",
    "p50 ms",
    "p99 ms",
    "oldest s",
    "delivered",
    "failed",
]


@dataclass(frozen=True, slots=True)
class Row:
    """One Trigger or Subscription, its partitions together.

    `rate`: finished events per second. `oldest_ms`: age of the oldest unfinished event. Latencies are those of the slowest partition.
    """

    namespace: str
    name: str
    topic: str
    states: Mapping[str, int]
    partitions: int
    lag: int
    rate: float
    in_flight: int
    retrying: int
    p50_ms: float
    p99_ms: float
    oldest_ms: int
    delivered: int
    dead_lettered: int
    dropped: int
    last_error: str

    def cells(self) -> list[Any]:
        """The row of the table."""
        state = " ".join(f"{name} {count}" for name, count in sorted(self.states.items())) or "not running"
        figures = [self.lag, round(self.rate, 1), self.in_flight, self.retrying, round(self.p50_ms, 1), round(self.p99_ms, 1)]
        return [
            f"{self.namespace}/{self.name}",
            self.topic,
            state,
            *figures,
            round(self.oldest_ms / 1000, 1),
            self.delivered,
            self.dead_lettered + self.dropped,
        ]


def rows(client: Client, namespace: str | None, only: set[str] | None) -> list[Row]:
    """One row per Trigger and Subscription, the largest lag first."""
    figures = client.figures()
    fresh = [one for one in figures["workers"] if figures["at"] - one["at"] < _FRESH_MS and not one.get("goodbye")]
    found = []
    for kind in [one for one in client.types() if one.kind in _LANES]:
        for obj in client.select(kind, namespace)["items"]:
            metadata = obj["metadata"]
            name = f"{kind.singular}/{metadata['name']}"
            if only is None or name in only:
                uid = metadata["uid"]
                found.append(_row(metadata["namespace"], name, uid, fresh, waiting(figures, uid)))
    return sorted(found, key=lambda row: (-row.lag, row.namespace, row.name))


def lanes_of(client: Client, names: Iterable[str], namespace: str) -> list[Selected]:
    """The Triggers and Subscriptions that `names` mean. Raises `UsageError` for anything else."""
    chosen = select(client, list(names), namespace)
    for one in chosen:
        if one.kind.kind not in _LANES or not one.name:
            raise UsageError("expected trigger/NAME or subscription/NAME", subject=one.word)
    return chosen


def _row(namespace: str, name: str, uid: str, workers: Iterable[Json], waiting: int) -> Row:
    mine = [(worker, worker["lanes"][uid]) for worker in workers if uid in worker["lanes"]]
    lanes = [lane for _, lane in mine]
    return Row(
        namespace=namespace,
        name=name,
        topic=mine[0][0]["topic"] if mine else "",
        states=dict(Counter(lane["state"] for lane in lanes)),
        partitions=len(lanes),
        lag=sum(lane["lag"] for lane in lanes) + waiting,
        rate=sum(lane["rate"] for lane in lanes),
        in_flight=sum(lane["in_flight"] for lane in lanes),
        retrying=sum(lane["retrying"] for lane in lanes),
        p50_ms=max((lane["p50_ms"] for lane in lanes), default=0.0),
        p99_ms=max((lane["p99_ms"] for lane in lanes), default=0.0),
        oldest_ms=max((lane["oldest_ms"] for lane in lanes), default=0),
        delivered=sum(lane["delivered"] for lane in lanes),
        dead_lettered=sum(lane["dead_lettered"] for lane in lanes),
        dropped=sum(lane["dropped"] for lane in lanes),
        last_error=next((text for lane in lanes if (text := lane["blocked"] or lane["last_error"])), ""),
    )


def _watch(client: Client, namespace: str | None, only: set[str] | None) -> None:
    from rich.live import Live

    from headrace.cli.output import table_of

    with Live(console=console(), screen=True, auto_refresh=False) as live:
        while True:
            live.update(table_of(HEAD, [row.cells() for row in rows(client, namespace, only)]), refresh=True)
            time.sleep(_REFRESH)


def _annotate(names: list[str], namespace: str, server: str | None, data_dir: str | None, value: str | None, done: str) -> None:
    with connect(server, data_dir) as client:
        for one in lanes_of(client, names, namespace):
            client.patch(one.kind, namespace, one.name, {"metadata": {"annotations": {PAUSED: value}}})
            print(f"{one.word} {done}")
