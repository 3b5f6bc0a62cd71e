"""`send`, `sink`, `tail`: events by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.settings import AuthOption, BootstrapOption, DataDirOption, NamespaceOption, ServerOption, connect

TargetArgument = Annotated[str, typer.Argument(metavar="broker/NAME|channel/NAME|URL", help="Where to.")]


def send(
    target: TargetArgument,
    type_: Annotated[str, typer.Option("-t", "--type", help="Type of the event.")] = "dev.headrace.test",
    source: Annotated[str, typer.Option("-s", "--source", help="Source of the event.")] = "/headrace/cli",
    data: Annotated[str | None, typer.Option("-d", "--data", help="Data; @FILE reads a file, @- standard input.")] = None,
    content_type: Annotated[
        str | None, typer.Option("--content-type", help="Media type of the data (default: JSON if it is JSON, else text).")
    ] = None,
    event_id: Annotated[
        str | None, typer.Option("--id", help="Id; with --count the prefix of ids. Default: a random one.")
    ] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Subject of the event.")] = None,
    extension: Annotated[
        list[str] | None, typer.Option("-e", "--extension", metavar="NAME=VALUE", help="Extension attribute; repeatable.")
    ] = None,
    structured: Annotated[
        bool, typer.Option("--structured", help="Structured mode (one JSON document) instead of binary.")
    ] = False,
    count: Annotated[int, typer.Option("--count", min=1, help="How many events; {n} in the data is the number.")] = 1,
    rate: Annotated[float, typer.Option("--rate", min=0, help="Events per second; 0: as fast as they are taken.")] = 0,
    as_subject: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="system:serviceaccount:NS:NAME",
            help="Whose token to show where one is asked for (default: the account default of the namespace).",
        ),
    ] = None,
    namespace: NamespaceOption = "default",
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Send CloudEvents to a Broker, a channel or a URL."""
    from headrace.cli.sending import Sending, event_of, send_all
    from headrace.cli.targets import address_of
    from headrace.cli.token import account_of

    template = event_of(
        type_=type_, source=source, subject=subject, data=data, content_type=content_type, extensions=extension or []
    )
    address = address_of(target, namespace, server, data_dir)
    token = ""
    if address.audience:
        account = account_of(as_subject) if as_subject else (namespace, "default")
        with connect(server, data_dir) as client:
            token = client.token(*account, [address.audience])["status"]["token"]
    send_all(Sending(address.url, template, event_id=event_id, structured=structured, count=count, rate=rate, token=token))


def sink(
    port: Annotated[int, typer.Option("--port", help="Port; 0: any free one.")] = 0,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    status: Annotated[int, typer.Option("--status", min=200, max=599, help="Status to answer with.")] = 202,
    fail_first: Annotated[int, typer.Option("--fail-first", min=0, help="Answer 500 to the first N requests.")] = 0,
    reply: Annotated[
        str | None, typer.Option("--reply", metavar="TYPE", help="Reply with an event of this type and the same data.")
    ] = None,
    delay: Annotated[float, typer.Option("--delay", min=0, help="Seconds to think before each answer.")] = 0,
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many events; 0: never.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document per event.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only count.")] = False,
) -> None:
    """Be a subscriber: print every event that comes in. It can reply, fail or be slow on demand."""
    from headrace.cli.receiving import Behaviour, run_sink

    run_sink(
        host,
        port,
        Behaviour(status=status, fail_first=fail_first, reply=reply, delay=delay),
        count=count,
        as_json=as_json,
        quiet=quiet,
    )


def tail(
    target: Annotated[str, typer.Argument(metavar="broker/NAME|channel/NAME", help="Whose events.")],
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Begin with the oldest event that is kept.")] = False,
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many events; 0: never.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document per event.")] = False,
    namespace: NamespaceOption = "default",
    server: ServerOption = None,
    data_dir: DataDirOption = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
) -> None:
    """Print events as they enter the topic of a Broker or channel."""
    from headrace.cli.tailing import tail_topic
    from headrace.cli.targets import topic_of

    topic = topic_of(target, namespace, server, data_dir, bootstrap_servers, kafka_auth)
    tail_topic(topic, from_beginning=from_beginning, count=count, as_json=as_json)
