"""`headrace kafka consume`: records as lines of text."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.errors import UsageError
from headrace.cli.kafka_ours import refuse_ours
from headrace.cli.kafka_target import target
from headrace.cli.output import Format, OutputOption, error_console
from headrace.cli.settings import AuthOption, BootstrapOption, DataDirOption, InstanceOption

if TYPE_CHECKING:
    from headrace.kafka.console.consuming import Incoming, Start


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Topics to read.")],
    group: Annotated[str, typer.Option("--group", "-g", help="Join this consumer group, and commit what was printed.")] = "",
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="From the first record kept.")] = False,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="From this offset of each partition.")] = None,
    from_time: Annotated[
        str, typer.Option("--from-time", metavar="TIME", help="From this time: 2026-01-31T12:00:00Z, or Unix milliseconds.")
    ] = "",
    partitions: Annotated[list[int] | None, typer.Option("--partition", min=0, help="Only these; repeatable.")] = None,
    max_messages: Annotated[int | None, typer.Option("--max-messages", min=1, help="End after so many.")] = None,
    until_end: Annotated[bool, typer.Option("--until-end", help="End when all that there is has been read.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.1, help="End after so many seconds without a record.")
    ] = None,
    value_only: Annotated[bool, typer.Option("--value-only", help="Print values and nothing else.")] = False,
    cloudevents: Annotated[bool, typer.Option("--cloudevents", help="Print the records as the events that they hold.")] = False,
    read_uncommitted: Annotated[
        bool, typer.Option("--read-uncommitted", help="Records of open and aborted transactions too.")
    ] = False,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    instance: InstanceOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print records until interrupted, or until an end that was asked for; says at the end how many there were.

    A line is partition, offset, key and value; `-o wide` adds timestamp and headers, `-o json` prints an object per line.
    """
    from headrace.kafka.console.consuming import Reader

    if output is Format.YAML:
        raise UsageError("records are a stream", subject="-o yaml", hint="Use -o json: one object per line")
    start = _start(from_beginning, offset, from_time)
    settings = target(bootstrap_servers, kafka_auth, data_dir)
    if group:
        refuse_ours(
            settings, group, instance, "consuming with it would move what Headrace delivers", "`headrace tail` shows events"
        )
    reader = Reader(
        settings,
        topics,
        start=start,
        group=group,
        partitions=partitions or (),
        until_end=until_end,
        idle=timeout,
        read_uncommitted=read_uncommitted,
    )
    seen = 0
    try:
        for record in reader.records(max_messages):
            _show(record, output, value_only=value_only, cloudevents=cloudevents)
            seen += 1
    except KeyboardInterrupt:
        pass
    error_console().print(f"Processed a total of {seen} messages", markup=False)


def _show(record: Incoming, output: Format, *, value_only: bool, cloudevents: bool) -> None:
    from headrace.kafka.console.rendering import as_data, line

    if cloudevents:
        _show_event(record, as_json=output is Format.JSON)
    elif output is Format.JSON:
        print(json.dumps(as_data(record), ensure_ascii=False), flush=True)
    else:
        sys.stdout.write(line(record, wide=output is Format.WIDE, value_only=value_only) + "\n")
        sys.stdout.flush()


def _show_event(record: Incoming, *, as_json: bool) -> None:
    from headrace.cli.eventform import print_event
    from headrace.core.events.kafka import decode_record
    from headrace.core.events.model import InvalidEvent

    place = f"partition {record.partition} offset {record.offset}"
    try:
        print_event(decode_record(record.headers, record.value, record.key), place, as_json=as_json)
    except InvalidEvent as error:
        error_console().print(f"not a CloudEvent at {place}: {error}", style="yellow", markup=False)


def _start(from_beginning: bool, offset: int | None, from_time: str) -> Start:
    from headrace.kafka.console.consuming import Start, Where

    wishes = {"--from-beginning": from_beginning, "--offset": offset is not None, "--from-time": bool(from_time)}
    given = [word for word, has in wishes.items() if has]
    if len(given) > 1:
        raise UsageError("there is one place to begin", subject=" and ".join(given), hint="Give one of them")
    if offset is not None:
        return Start(Where.OFFSET, offset)
    if from_time:
        return Start(Where.TIME, milliseconds(from_time))
    return Start(Where.BEGINNING if from_beginning else Where.END)


def milliseconds(text: str) -> int:
    """Unix milliseconds of a date and time (UTC unless it says otherwise), or of such a number."""
    if re.fullmatch(r"\d{10,}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time", hint="Give 2026-01-31T12:00:00Z, or milliseconds since 1970") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
