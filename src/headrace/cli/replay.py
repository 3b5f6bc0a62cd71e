"""`replay`: events of the past once more to one Trigger or Subscription, as a lane of its own; its own position stays where it is.

The replay is an object beside the original: a copy with a name of its own that starts at `headrace.dev/initial-offset` and ends before
`headrace.dev/until`. So it has the same filter, retries, replies and dead letters, outlives a restart of the dispatcher, shows in `top`,
and is deleted when it is through.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.clock import Deadline
from headrace.base.errors import UsageError, WaitTimeout
from headrace.cli.output import error_console
from headrace.cli.selection import Selected, duration, wait_gone, wait_ready
from headrace.cli.settings import AuthOption, BootstrapOption, DataDirOption, NamespaceOption, ServerOption, connect
from headrace.core.resources.annotations import INITIAL_OFFSET, KEEP_POSITION, OURS, PAUSED, UNTIL, From, parse_initial_offset

if TYPE_CHECKING:
    from headrace.kafka.admin import Admin

Json = dict[str, Any]
REPLAY_OF = OURS + "replay-of"
"""Label of a replay: the name of what it replays."""
_LOOK_SECONDS = 0.5
_READY_SECONDS = 120.0


def replay(
    lane: Annotated[str, typer.Argument(metavar="TYPE/NAME", help="trigger/NAME or subscription/NAME.")],
    start: Annotated[
        str, typer.Option("--from", metavar="TIME|DURATION|OFFSETS|earliest", help="2026-01-31T12:00:00Z, PT1H, 0:120,1:98.")
    ],
    end: Annotated[
        str, typer.Option("--to", metavar="TIME|DURATION|OFFSETS|latest", help="Where to end; latest: what is there now.")
    ] = "latest",
    timeout: Annotated[str, typer.Option("--timeout", help="Give up after so long.")] = "1h",
    namespace: NamespaceOption = "default",
    server: ServerOption = None,
    data_dir: DataDirOption = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
) -> None:
    """Deliver events of the past once more to one Trigger or Subscription, whose own position stays untouched."""
    from headrace.cli.lanes import lanes_of
    from headrace.cli.targets import topic_of
    from headrace.kafka.admin import Admin

    _check(start, "--from")
    deadline = Deadline(duration(timeout))
    with connect(server, data_dir) as client:
        (chosen,) = lanes_of(client, [lane], namespace)
        original = chosen.fetch(client)
        topic = topic_of(_holder(original), namespace, server, data_dir, bootstrap_servers, kafka_auth)
        admin = Admin(topic.kafka)
        until = _until(admin, topic.name, end)
        copy = _copy(original, start, until)
        made = Selected(chosen.kind, namespace, copy["metadata"]["name"])
        client.create(chosen.kind, namespace, copy)
        try:
            wait_ready(client, [made], min(_READY_SECONDS, deadline.remaining()))
            group = str(made.fetch(client)["status"]["annotations"]["group.id"])
            _follow(admin, group, topic.name, until, deadline, lane)
        finally:
            client.delete(chosen.kind, namespace, made.name)
        wait_gone(client, [made], _READY_SECONDS)
    print(f"{lane} replayed from {start} to {_text(until)}")


def _check(start: str, option: str) -> None:
    try:
        wanted = parse_initial_offset(start)
    except ValueError as error:
        raise UsageError(str(error), subject=f"{option} {start!r}") from None
    if wanted.start is From.LATEST:
        raise UsageError("there is nothing to replay from the end on", subject=f"{option} latest")


def _until(admin: Admin, topic: str, end: str) -> dict[int, int]:
    """Partition -> first offset that is not replayed."""
    try:
        wanted = parse_initial_offset(end)
    except ValueError as error:
        raise UsageError(str(error), subject=f"--to {end!r}") from None
    ends = admin.end_offsets(topic)
    match wanted.start:
        case From.LATEST:
            return ends
        case From.TIME:
            return admin.offsets_for_time(topic, wanted.ms)
        case From.AGO:
            return admin.offsets_for_time(topic, int(time.time() * 1000) - wanted.ms)
        case From.OFFSETS:
            return {partition: min(dict(wanted.offsets).get(partition, 0), last) for partition, last in ends.items()}
        case _:
            raise UsageError("expected a time, a duration back, offsets or latest", subject=f"--to {end!r}")


def _holder(obj: Json) -> str:
    channel = obj["spec"].get("channel")
    return f"{channel['kind'].lower()}/{channel['name']}" if channel else f"broker/{obj['spec']['broker']}"


def _copy(original: Json, start: str, until: dict[int, int]) -> Json:
    metadata = original["metadata"]
    dropped = (INITIAL_OFFSET, KEEP_POSITION, PAUSED, UNTIL)
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name not in dropped}
    return {
        "apiVersion": original["apiVersion"],
        "kind": original["kind"],
        "metadata": {
            "name": f"{metadata['name'][:48]}-replay-{uuid.uuid4().hex[:6]}",
            "namespace": metadata["namespace"],
            "labels": {REPLAY_OF: metadata["name"]},
            "annotations": {**annotations, INITIAL_OFFSET: start, UNTIL: _text(until)},
        },
        "spec": original["spec"],
    }


def _text(offsets: dict[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def _follow(admin: Admin, group: str, topic: str, until: dict[int, int], deadline: Deadline, lane: str) -> None:
    """Wait until the replay's group, the mirror of its position, has reached the end on every partition."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TextColumn("offsets"))
    with Progress(*columns, console=error_console(), transient=True) as progress:
        first: dict[int, int] = {}
        bar = progress.add_task("replay", total=None)
        while True:
            at = admin.group_offsets(group, topic)
            first = first or dict(at)
            total = sum(max(0, last - first.get(partition, 0)) for partition, last in until.items())
            left = sum(max(0, last - at.get(partition, 0)) for partition, last in until.items())
            progress.update(bar, total=total, completed=total - left)
            if left == 0:
                return
            if deadline.expired:
                hint = "Replay the rest with --from and a longer --timeout"
                raise WaitTimeout(f"{left} offsets are still to be gone through, at {_text(at)}", subject=lane, hint=hint)
            time.sleep(_LOOK_SECONDS)
