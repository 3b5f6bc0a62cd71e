"""`headrace kafka dump-log`: what is in Kafka's files. Thin: `headrace.kafka.log` does it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from headrace.base.errors import UsageError
from headrace.cli.output import Format, OutputOption, error_console
from headrace.kafka.log.decoders import Decoder, coordinator_decoder, group_of, metadata_decoder
from headrace.kafka.log.dump import Dump, IndexMode, Options, Progress
from headrace.kafka.log.printers import JsonPrinter, TextPrinter

_BIG = 64 << 20
_STEP = 1 << 20
_OFFSETS, _TRANSACTIONS, _METADATA, _SHARES, _EVENTS = (
    "offsets",
    "transaction-log",
    "cluster-metadata",
    "share-group-state",
    "events",
)


def dump_log(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files, folders of partitions, or log folders.")] = None,
    files: Annotated[str, typer.Option("--files", help="The same as a comma-separated list, as Kafka's tool takes it.")] = "",
    deep: Annotated[bool, typer.Option("--deep-iteration", help="Records too, not only batches.")] = False,
    contents: Annotated[bool, typer.Option("--print-data-log", help="Keys and values too; implies --deep-iteration.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets-decoder", help="The records are those of __consumer_offsets.")] = False,
    transactions: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="The records are those of __transaction_state.")
    ] = False,
    metadata: Annotated[
        bool, typer.Option("--cluster-metadata-decoder", help="The records are those of __cluster_metadata.")
    ] = False,
    shares: Annotated[
        bool, typer.Option("--share-group-state-decoder", help="The records are those of __share_group_state.")
    ] = False,
    events: Annotated[bool, typer.Option("--cloudevents", help="The records are CloudEvents: an attribute a line.")] = False,
    group: Annotated[str, typer.Option("--group", help="Only what concerns this group; implies --offsets-decoder.")] = "",
    skip_metadata: Annotated[bool, typer.Option("--skip-record-metadata", help="Only keys and values of records.")] = False,
    verify_only: Annotated[bool, typer.Option("--verify-index-only", help="Check indexes, print only what is wrong.")] = False,
    sanity_only: Annotated[
        bool, typer.Option("--index-sanity-check", help="Check indexes only as a broker does when it starts.")
    ] = False,
    max_bytes: Annotated[int | None, typer.Option("--max-bytes", min=0, help="Read only so much of each segment.")] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print segments, indexes and snapshots, as Kafka's own kafka-dump-log.sh prints them, without a broker or a JVM.

    Damaged files are read past the damage, which is told with its position. A folder's indexes are checked and summed up.
    Exit code 1 when something is damaged or an index does not fit. `-o json` prints one object per line.
    """
    wanted = [*(paths or []), *(Path(name) for name in files.split(",") if name)]
    if not wanted:
        raise UsageError("nothing to dump", subject="dump-log", hint="Give segment files, or the folder of a partition")
    if output is Format.YAML:
        raise UsageError("a dump is a stream of records", subject="-o yaml", hint="Use -o json: one object per line")
    chosen = {_OFFSETS: offsets, _TRANSACTIONS: transactions, _METADATA: metadata, _SHARES: shares, _EVENTS: events}
    decoder = _decoder([name for name, given in chosen.items() if given], group)
    options = Options(
        deep=deep or contents or decoder is not None,
        decoder=decoder,
        select=(lambda decoded: group_of(decoded) == group) if group else None,
        max_bytes=max_bytes,
        indexes=IndexMode.SANITY if sanity_only else IndexMode.VERIFY if verify_only else IndexMode.PRINT,
    )
    kind = JsonPrinter if output is Format.JSON else TextPrinter
    printer = kind(sys.stdout.buffer, contents=contents or decoder is not None, metadata=not skip_metadata)
    with _progress() as progress:
        findings = Dump(options, printer, progress).run(wanted)
    sys.stdout.flush()
    for found in findings:
        for line in found.lines():
            print(line, file=sys.stderr)
    if any(found.harmful for found in findings):
        raise typer.Exit(1)


def _decoder(chosen: list[str], group: str) -> Decoder | None:
    if group and chosen not in ([], [_OFFSETS]):
        raise UsageError("only offsets have groups", subject=f"--group {group}", hint="Leave the other decoder out")
    if group:
        chosen = [_OFFSETS]
    if len(chosen) > 1:
        raise UsageError(f"records can't be {' and '.join(chosen)} at once", subject="dump-log", hint="Choose one decoder")
    if not chosen:
        return None
    if chosen == [_EVENTS]:
        # Imported here: what events need is not needed to read files.
        from headrace.kafka.log.cloudevents import cloudevent_decoder

        return cloudevent_decoder
    families = {_OFFSETS: "group", _TRANSACTIONS: "transaction", _SHARES: "share"}
    return metadata_decoder() if chosen == [_METADATA] else coordinator_decoder(families[chosen[0]])


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar on standard error for big files, where a person sees it and the dump itself goes elsewhere."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bar(*columns, console=error_console(), transient=True) as bar:
        yield _teller(bar.add_task, bar.update)


def _teller(add: Callable[..., object], update: Callable[..., None]) -> Progress:
    """Tells a bar about files of `_BIG` bytes and more, a megabyte at a time."""
    tasks: dict[Path, object] = {}
    told: dict[Path, int] = {}

    def tell(path: Path, position: int, size: int) -> None:
        if size < _BIG or position - told.get(path, -_STEP) < _STEP:
            return
        told[path] = position
        task = tasks.get(path) or tasks.setdefault(path, add(path.name, total=size))
        update(task, completed=position)

    return tell
