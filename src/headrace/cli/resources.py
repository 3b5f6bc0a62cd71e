"""`apply`, `get`, `describe`, `delete`: objects of a running controller."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import HeadraceError, Terminal, UsageError
from headrace.cli.output import Format, OutputOption, console, error_console, print_data
from headrace.cli.settings import DataDirOption, NamespaceOption, ServerOption, connect

if TYPE_CHECKING:
    from headrace.cli.selection import Selected
    from headrace.standalone.client import Client

Json = dict[str, Any]
FilesOption = Annotated[
    list[str] | None,
    typer.Option("-f", "--filename", metavar="FILE|DIR|-", help="Manifest, folder of manifests, or - for standard input."),
]
SelectorOption = Annotated[str, typer.Option("-l", "--selector", help="Labels to select by, as app=shop,tier!=test.")]
TimeoutOption = Annotated[str, typer.Option("--timeout", help="How long to wait: 30s, 2m.")]


def apply(
    filename: FilesOption = None,
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="Namespace of objects that name none.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all of them are Ready.")] = False,
    timeout: TimeoutOption = "60s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check; change nothing.")] = False,
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Create or update objects from manifests. All of them are checked before the first is written."""
    from headrace.cli.applying import Applied, applied, check, plan
    from headrace.cli.manifests import read_all
    from headrace.cli.selection import duration, wait_ready

    seconds = duration(timeout)
    documents = read_all(_given(filename))
    with connect(server, data_dir) as client:
        changes = plan(client, documents, namespace)
        faults = check(client, changes)
        if faults:
            _print_faults(faults)
            raise Terminal("nothing was applied", hint="Correct the manifests and apply them again")
        if dry_run:
            for change in changes:
                console().print(f"{change.word} is valid", markup=False)
            return
        done: list[Applied] = []
        for change in changes:
            done.append(applied(client, change))
            console().print(f"{done[-1].word} {done[-1].what}", markup=False)
        if wait:
            wait_ready(client, [one.selected for one in done if one.selected.kind.has_status], seconds)


def get(
    what: Annotated[
        list[str], typer.Argument(metavar="TYPE[,TYPE] [NAME...] | TYPE/NAME", help="What to show; `all` for everything.")
    ],
    namespace: NamespaceOption = "default",
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Objects of all namespaces.")] = False,
    output: OutputOption = Format.TABLE,
    selector: SelectorOption = "",
    wait: Annotated[str, typer.Option("--wait", metavar="CONDITION", help="Wait until the condition holds, as Ready.")] = "",
    timeout: TimeoutOption = "60s",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Go on showing changes.")] = False,
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show objects."""
    from headrace.cli.selection import duration, select, wait_ready

    seconds = duration(timeout)
    with connect(server, data_dir) as client:
        chosen = select(client, what, None if all_namespaces else namespace)
        if wait:
            wait_ready(client, _each(client, chosen, selector), seconds, condition=wait)
        if output in (Format.JSON, Format.YAML):
            _print_objects(client, chosen, selector, output)
        else:
            from headrace.cli.tables import print_tables

            print_tables(client, chosen, selector, wide=output is Format.WIDE)
        if watch:
            _follow(client, chosen, selector, output)


def describe(
    what: Annotated[list[str], typer.Argument(metavar="TYPE NAME | TYPE/NAME...", help="What to show.")],
    namespace: NamespaceOption = "default",
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show everything about objects: spec, conditions, address, and how their events flow."""
    from headrace.cli.describing import describe_object
    from headrace.cli.selection import select

    with connect(server, data_dir) as client:
        figures = client.figures()
        for index, one in enumerate(_each(client, select(client, what, namespace), "")):
            if index:
                console().print()
            describe_object(one.fetch(client), figures)


def delete(
    what: Annotated[list[str] | None, typer.Argument(metavar="TYPE NAME... | TYPE/NAME...", help="What to delete.")] = None,
    filename: FilesOption = None,
    namespace: NamespaceOption = "default",
    every: Annotated[bool, typer.Option("--all", help="All objects of the type in the namespace.")] = False,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Objects that are not there are no error.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until they are gone.")] = True,
    timeout: TimeoutOption = "60s",
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Delete objects."""
    from headrace.cli.selection import duration, select, selected_documents, wait_gone

    seconds = duration(timeout)
    if bool(what) == bool(filename):
        raise UsageError("delete what?", hint="Name objects (trigger/orders), or give manifests with -f")
    with connect(server, data_dir) as client:
        if filename:
            from headrace.cli.manifests import read_all

            chosen = selected_documents(client, read_all(filename), namespace)
        else:
            chosen = select(client, what or [], namespace)
            nameless = next((one for one in chosen if not one.name), None)
            if nameless and not every:
                raise UsageError(f"which {nameless.kind.plural}?", hint="Name them, or give --all")
            chosen = _each(client, chosen, "")
        gone = [one for one in chosen if _delete_one(client, one, ignore_not_found)]
        if wait:
            wait_gone(client, gone, seconds)


def _delete_one(client: Client, one: Selected, ignore_not_found: bool) -> bool:
    from headrace.standalone.client import Refused

    try:
        client.delete(one.kind, one.namespace or "", one.name)
    except Refused as error:
        if error.reason == "NotFound" and ignore_not_found:
            return False
        raise
    console().print(f"{one.word} deleted", markup=False)
    return True


def _each(client: Client, chosen: list[Selected], selector: str) -> list[Selected]:
    """The objects one by one: a type alone stands for all that are there."""
    from headrace.cli.selection import each

    return each(client, chosen, selector)


def _print_objects(client: Client, chosen: list[Selected], selector: str, output: Format) -> None:
    if len(chosen) == 1 and chosen[0].name:
        print_data(chosen[0].fetch(client), output)
        return
    items: list[Json] = []
    for one in chosen:
        if one.name:
            items.append(one.fetch(client))
        else:
            listed = client.select(one.kind, one.namespace, selector)
            items += [{"apiVersion": one.kind.api_version, "kind": one.kind.kind} | item for item in listed["items"]]
    print_data({"apiVersion": "v1", "kind": "List", "items": items}, output)


def _follow(client: Client, chosen: list[Selected], selector: str, output: Format) -> None:
    if len(chosen) != 1:
        raise UsageError("--watch follows one type or one object", hint="Name one")
    one = chosen[0]
    from headrace.cli.tables import print_row

    since = client.select(one.kind, one.namespace, selector)["metadata"]["resourceVersion"]
    for change, obj in client.watch(one.kind, one.namespace, since, selector):
        if one.name in ("", obj["metadata"]["name"]):
            if output in (Format.JSON, Format.YAML):
                print_data({"type": change, "object": obj}, output)
            else:
                print_row(client, one.kind, change, obj)
            sys.stdout.flush()


def _print_faults(faults: list[tuple[str, HeadraceError]]) -> None:
    for subject, error in faults:
        error_console().print(f"{subject}: {error}", markup=False)


def _given(filename: list[str] | None) -> list[str]:
    if not filename:
        raise UsageError("apply what?", hint="Give manifests with -f FILE, -f DIR or -f -")
    return filename
