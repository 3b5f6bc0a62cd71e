"""`headrace kafka produce`: records from lines of text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.clock import SystemClock
from headrace.base.errors import Terminal, UsageError
from headrace.cli.kafka_target import target
from headrace.cli.output import Format, OutputOption, error_console, parse_assignments, print_data
from headrace.cli.settings import AuthOption, BootstrapOption, DataDirOption

if TYPE_CHECKING:
    from headrace.kafka.console.lines import Outgoing, Parser
    from headrace.kafka.console.producing import Acknowledged

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to produce to.")],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read lines from this file instead of standard input.")
    ] = None,
    separator: Annotated[
        str, typer.Option("--key-separator", metavar="TEXT", help="Each line is KEY, this, VALUE. Without it: values only.")
    ] = "",
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="A key or value of this text becomes a null one.")
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="For every record; repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Not where the key belongs, but there.")] = None,
    json_lines: Annotated[
        bool,
        typer.Option(
            "--json", help="Each line is an object: value, key, headers, partition, timestamp; as consume -o json prints."
        ),
    ] = False,
    cloudevents: Annotated[
        bool, typer.Option("--cloudevents", help="Each line is a CloudEvent in JSON, or with --type its data.")
    ] = False,
    kind: Annotated[str, typer.Option("--type", help="With --cloudevents: type of the events made around the lines.")] = "",
    source: Annotated[str, typer.Option("--source", help="With --type: source of those events.")] = "/headrace/kafka",
    structured: Annotated[
        bool, typer.Option("--structured", help="With --cloudevents: structured, not binary records.")
    ] = False,
    compression: Annotated[str, typer.Option("--compression", help="none, gzip, snappy, lz4 or zstd.")] = "none",
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds that Kafka may take for a record.")] = 120.0,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    data_dir: DataDirOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Produce a record for each line. Keys land in the partitions where Kafka's own producer puts them.

    Every record is acknowledged by all in-sync replicas, once each (idempotent producer). Exit code 1 when one could not be produced.
    `-o wide` prints where each landed.
    """
    from headrace.kafka.admin import Admin
    from headrace.kafka.console.producing import Sender

    if compression not in _CODECS:
        raise UsageError("no such compression", subject=f"--compression {compression}", hint=f"Use {', '.join(_CODECS)}")
    parse = _parser(separator, null, json_lines, cloudevents, kind, source, structured)
    extra = [(name, value.encode()) for name, value in parse_assignments(headers or [], "--header").items()]
    settings = target(bootstrap_servers, kafka_auth, data_dir)
    if Admin(settings).describe(topic) is None:
        raise Terminal("does not exist", subject=f"topic {topic}", hint=f"Make it: `headrace kafka topics create {topic}`")
    landed: list[Acknowledged] = []

    def on_ack(record: Acknowledged) -> None:
        if output in (Format.JSON, Format.YAML):
            landed.append(record)
        elif output is Format.WIDE:
            print(f"Partition:{record.partition}\tOffset:{record.offset}\t{_text(record.key)}", flush=True)

    sender = Sender(settings, topic, compression=compression, timeout=timeout, on_ack=on_ack)
    with _lines(file) as lines:
        produced = sender.send(_records(lines, parse), extra, partition)
    if output in (Format.JSON, Format.YAML):
        records = [
            {"number": one.number, "partition": one.partition, "offset": one.offset, "key": _text(one.key)} for one in landed
        ]
        print_data({"topic": topic, "produced": produced.acknowledged, "failed": produced.failed, "records": records}, output)
    else:
        error_console().print(f"Produced {produced.acknowledged} records.", markup=False)
    if produced.failure is not None:
        error_console().print(f"{produced.failed} records failed.", markup=False)
        raise produced.failure


def _parser(
    separator: str, null: str | None, json_lines: bool, cloudevents: bool, kind: str, source: str, structured: bool
) -> Parser:
    from headrace.core.contract import ContentMode
    from headrace.kafka.console import lines

    if cloudevents and json_lines:
        raise UsageError("lines are records or events, not both", subject="--json and --cloudevents")
    if (kind or structured) and not cloudevents:
        raise UsageError("only for events", subject="--type and --structured", hint="Add --cloudevents")
    if separator and (cloudevents or json_lines):
        raise UsageError("keys are in the lines already", subject="--key-separator", hint="Leave it out")
    if cloudevents:
        mode = ContentMode.STRUCTURED if structured else ContentMode.BINARY
        return lines.cloudevents(kind, source, mode, SystemClock())
    return lines.json_record if json_lines else lines.plain(separator, null)


@contextmanager
def _lines(file: Path | None) -> Iterator[Iterable[str]]:
    if file is None:
        yield sys.stdin
        return
    try:
        with file.open(encoding="utf-8", newline="\n") as opened:
            yield opened
    except OSError as error:
        raise UsageError(f"can't be read: {error.strerror}", subject=str(file)) from error


def _records(lines: Iterable[str], parse: Parser) -> Iterator[Outgoing]:
    for number, line in enumerate(lines, 1):
        yield parse(line.removesuffix("\n").removesuffix("\r"), number)


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "replace")
