"""`headrace kafka groups`: consumer groups, their lag, and the lanes behind those that are Headrace's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import HeadraceError, Terminal, UsageError
from headrace.cli.kafka_consume import milliseconds
from headrace.cli.kafka_ours import instance_name, own_group, refuse_ours
from headrace.cli.kafka_target import target
from headrace.cli.output import Format, OutputOption, console, error_console, print_data, print_table
from headrace.cli.settings import AuthOption, BootstrapOption, DataDirOption, InstanceOption

if TYPE_CHECKING:
    from headrace.core.progress import ProgressRecord
    from headrace.kafka.admin import Admin
    from headrace.kafka.inspection import GroupFacts
    from headrace.kafka.ownership import OwnGroup

app = typer.Typer()

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the consumer group.")]


@app.command("list")
def list_groups(
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    instance: InstanceOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List consumer groups; the last column says what Headrace keeps a group for."""
    from headrace.kafka.inspection import Inspector
    from headrace.kafka.ownership import own_groups

    settings = target(bootstrap_servers, kafka_auth, data_dir)
    ours = own_groups(settings, instance_name(instance))
    groups = Inspector(settings).groups()
    rows = [
        [one.name, one.state.lower(), one.kind.lower(), ours[one.name].subject if one.name in ours else None] for one in groups
    ]
    print_table(["group", "state", "kind", "kept for"], rows, output=output, empty="There are no groups.")


@app.command()
def describe(
    group: GroupArgument,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    instance: InstanceOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show a group: committed offset, end, lag and member of each partition; for Headrace's own groups the lanes' progress too."""
    from headrace.kafka.admin import Admin
    from headrace.kafka.inspection import Inspector
    from headrace.kafka.ownership import lane_progress

    settings = target(bootstrap_servers, kafka_auth, data_dir)
    inspector, admin = Inspector(settings), Admin(settings)
    facts, committed = inspector.group(group), inspector.group_offsets(group)
    own = own_group(settings, group, instance)
    if facts.state == "DEAD" and not committed and own is None:
        raise Terminal("does not exist", subject=f"group {group}", hint="`headrace kafka groups list` shows those that do")
    lanes = lane_progress(settings, instance_name(instance), own.uid) if own else {}
    partitions = _partitions(admin, facts, committed)
    lane_rows = _lanes(own, lanes) if own else []
    if output in (Format.JSON, Format.YAML):
        data: dict[str, Any] = {
            "group": group,
            "state": facts.state.lower(),
            "kind": facts.kind.lower(),
            "assignor": facts.assignor,
            "coordinator": facts.coordinator,
            "partitions": partitions,
        }
        if own:
            data |= {
                "keptFor": {"kind": own.kind, "namespace": own.namespace, "name": own.name, "uid": own.uid},
                "lanes": lane_rows,
            }
        print_data(data, output)
        return
    console().print(
        f"Group: {group}  State: {facts.state.lower()}  Kind: {facts.kind.lower()}  Coordinator: {facts.coordinator}  "
        f"Members: {len(facts.members)}",
        markup=False,
    )
    columns = ["topic", "partition", "offset", "end", "lag", "member", "host"]
    print_table(columns, [list(part.values()) for part in partitions], output=output, empty="Nothing is committed.")
    if own:
        console().print(f"\nHeadrace keeps it for {own.subject} in namespace {own.namespace}. Its lanes:", markup=False)
        rows = [
            [row["partition"], row["position"], row["low"], row["completed"], row["stragglers"], row["run"]]
            for row in lane_rows
        ]
        shown = [[part, position, low, _ranges(done), len(waiting), run] for part, position, low, done, waiting, run in rows]
        print_table(["partition", "position", "lowest open", "completed above", "stragglers", "run"], shown, output=output)


@app.command("reset-offsets")
def reset_offsets(
    group: GroupArgument,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic; repeatable. Else all that it has committed.")
    ] = None,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only these partitions; repeatable.")
    ] = None,
    earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record kept.")] = False,
    latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")] = None,
    shift: Annotated[int | None, typer.Option("--shift-by", help="By so many from where it is; negative: back.")] = None,
    moment: Annotated[
        str, typer.Option("--to-time", metavar="TIME", help="To this time: 2026-01-31T12:00:00Z or Unix milliseconds.")
    ] = "",
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without, only what would be done is shown.")] = False,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    instance: InstanceOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Set the offsets of a group that has no members. Offsets out of range become the nearest there is.

    Groups that Headrace keeps are refused: positions of subscriptions are changed with `headrace replay`.
    """
    from headrace.kafka.admin import Admin
    from headrace.kafka.inspection import Inspector

    wishes = {
        "--to-earliest": earliest,
        "--to-latest": latest,
        "--to-offset": offset is not None,
        "--shift-by": shift is not None,
    }
    given = [word for word, has in (wishes | {"--to-time": bool(moment)}).items() if has]
    if len(given) != 1:
        raise UsageError(
            "where to?", subject=" and ".join(given) or "reset-offsets", hint=f"Give one of {', '.join(wishes)}, --to-time"
        )
    settings = target(bootstrap_servers, kafka_auth, data_dir)
    own = own_group(settings, group, instance)
    if own is not None:
        raise Terminal(
            f"is kept by Headrace for {own.subject} in namespace {own.namespace}: what is set here would be overwritten",
            subject=f"group {group}",
            hint=f"Use `headrace replay {own.subject} -n {own.namespace}`",
        )
    admin, committed = Admin(settings), Inspector(settings).group_offsets(group)
    chosen = topics or sorted({topic for topic, _ in committed})
    if not chosen:
        raise UsageError("has committed nothing: which topic?", subject=f"group {group}", hint="Give --topic")
    plan: dict[str, dict[int, int]] = {}
    for topic in chosen:
        begins, ends = admin.begin_offsets(topic), admin.end_offsets(topic)
        times = admin.offsets_for_time(topic, milliseconds(moment)) if moment else {}
        for part in sorted(ends):
            if partitions and part not in partitions:
                continue
            now = committed.get((topic, part), begins[part])
            fixed = offset if offset is not None else now + shift if shift is not None else times.get(part, begins[part])
            wanted = begins[part] if earliest else ends[part] if latest else fixed
            plan.setdefault(topic, {})[part] = min(max(wanted, begins[part]), ends[part])
    if not plan:
        raise UsageError("no such partitions", subject=f"topic {', '.join(chosen)}")
    if execute:
        for topic, offsets in plan.items():
            _commit(admin, group, topic, offsets)
    rows = [
        [topic, part, committed.get((topic, part)), new] for topic, offsets in plan.items() for part, new in offsets.items()
    ]
    print_table(["topic", "partition", "offset", "new offset"], rows, output=output)
    if not execute:
        error_console().print("Nothing was changed: add --execute to do it.", markup=False)


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Names of the groups.")],
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    instance: InstanceOption = None,
) -> None:
    """Delete groups without members, with their offsets."""
    from headrace.kafka.admin import Admin
    from headrace.kafka.inspection import Inspector

    settings = target(bootstrap_servers, kafka_auth, data_dir)
    known = {one.name for one in Inspector(settings).groups()}
    for group in groups:
        refuse_ours(settings, group, instance, "it would be made again", "Delete the trigger or subscription instead")
        if group not in known:
            raise Terminal("does not exist", subject=f"group {group}")
    admin = Admin(settings)
    for group in groups:
        admin.delete_group(group)
        print(f"Deleted group {group}.")


def _commit(admin: Admin, group: str, topic: str, offsets: dict[int, int]) -> None:
    refused = admin.commit_group_offsets(group, topic, offsets)
    if not refused:
        return
    partition, refusal = next(iter(refused.items()))
    if refusal.has_members:
        raise Terminal("has members: only they may set its offsets", subject=f"group {group}", hint="Stop its consumers first")
    raise Terminal(f"Kafka refused the offset of partition {partition} of {topic}: {refusal.text}", subject=f"group {group}")


def _partitions(admin: Admin, facts: GroupFacts, committed: dict[tuple[str, int], int]) -> list[dict[str, Any]]:
    """One entry per partition that is committed or assigned."""
    members = {part: member for member in facts.members for part in member.partitions}
    ends: dict[str, dict[int, int]] = {}
    rows = []
    for topic, number in sorted({*committed, *members}):
        if topic not in ends:
            ends[topic] = _ends(admin, topic)
        offset, end, member = committed.get((topic, number)), ends[topic].get(number), members.get((topic, number))
        rows.append(
            {
                "topic": topic,
                "partition": number,
                "offset": offset,
                "end": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": member.client if member else None,
                "host": member.host if member else None,
            }
        )
    return rows


def _ends(admin: Admin, topic: str) -> dict[int, int]:
    try:
        return admin.end_offsets(topic)
    except HeadraceError as error:
        error_console().print(f"Ends of topic {topic} could not be read: {error}", style="yellow", markup=False)
        return {}


def _lanes(own: OwnGroup, lanes: dict[int, ProgressRecord]) -> list[dict[str, Any]]:
    return [
        {
            "topic": own.topic,
            "partition": partition,
            "position": record.progress.position,
            "low": record.progress.low,
            "completed": [list(part) for part in record.progress.done],
            "stragglers": [
                {"offset": one.offset, "attempts": one.attempts, "since": one.since} for one in record.progress.stragglers
            ],
            "run": record.run,
            "at": record.at,
            "parked": record.parked,
        }
        for partition, record in sorted(lanes.items())
    ]


def _ranges(ranges: list[list[int]], most: int = 5) -> str:
    """`45-47,50`, and how many more ranges there are."""
    words = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:most]]
    more = f" and {len(ranges) - most} more" if len(ranges) > most else ""
    return ",".join(words) + more
