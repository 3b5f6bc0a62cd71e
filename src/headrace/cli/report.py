"""`report`: everything that somebody needs who is to find out what is wrong, in one file, without secrets."""

from __future__ import annotations

import platform
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace import __version__
from headrace.base.errors import UsageError
from headrace.cli.output import Format, OutputOption, console, error_console, print_data
from headrace.cli.settings import (
    AuthOption,
    BootstrapOption,
    ConfigOption,
    DataDirOption,
    InstanceOption,
    ServerOption,
    kafka_settings,
    loaded,
)
from headrace.core.report import Report, Secrets

if TYPE_CHECKING:
    from headrace.base.config import Loaded
    from headrace.kafka.settings import KafkaSettings

_MEBI = 1 << 20


def report(
    file: Annotated[
        Path | None, typer.Option("--file", metavar="ZIP", help="Where to write it (default: headrace-report-TIME.zip here).")
    ] = None,
    secrets: Annotated[
        Secrets, typer.Option("--secrets", help="Secret objects: left out, their values hidden, or all shown.")
    ] = Secrets.HIDDEN,
    log_mb: Annotated[float, typer.Option("--log-mb", min=0.01, help="How much of the end of each log.")] = 1.0,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    instance: InstanceOption = None,
    config: ConfigOption = None,
    kubernetes: Annotated[bool, typer.Option("--kubernetes", help="Of a Kubernetes cluster, by kubectl.")] = False,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="With --kubernetes: namespace of the Strimzi cluster.")
    ] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="With --kubernetes: name of the Strimzi cluster.")] = "",
    bridge: Annotated[str, typer.Option("--bridge", help="With --cluster: name of a Kafka Bridge.")] = "",
    connect: Annotated[str, typer.Option("--connect", help="With --cluster: name of a Kafka Connect.")] = "",
    mm2: Annotated[str, typer.Option("--mm2", help="With --cluster: name of a MirrorMaker 2.")] = "",
    context: Annotated[str, typer.Option("--context", help="With --kubernetes: context of kubectl.")] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Collect versions, settings, objects, contract, topics, groups, logs, thread dumps and host figures into a zip, without secrets.

    It works while parts of the system are down: what could not be read is listed with the reason. `reports/index.html` is where to begin.
    """
    from headrace.home.report import archive

    given = {
        "-n": namespace,
        "--cluster": cluster,
        "--bridge": bridge,
        "--connect": connect,
        "--mm2": mm2,
        "--context": context,
    }
    _check(kubernetes, given)
    now = datetime.now().astimezone()
    path = file or Path(archive.default_name(now))
    archive.check_free(path)
    flags = {
        "data_dir": data_dir,
        "kafka.bootstrap_servers": bootstrap_servers,
        "kafka.auth": kafka_auth,
        "instance": instance,
    }
    settings = loaded(config, flags)
    printer = console() if output in (Format.TABLE, Format.WIDE) else error_console()
    made = Report(secrets, lambda line: printer.print(line, markup=False))
    if kubernetes:
        from headrace.kube.report import Strimzi, collect_kubernetes

        strimzi = Strimzi(namespace, cluster, bridge, connect, mm2) if cluster else None
        collect_kubernetes(made, context, settings, strimzi, log_bytes=round(log_mb * _MEBI))
        if settings.settings.kafka.bootstrap_servers:
            _kafka_of(made, settings)
        subject = f"Kubernetes{f', Strimzi cluster {cluster} in {namespace}' if cluster else ''}"
    else:
        from headrace.standalone.datadir import DataDir
        from headrace.standalone.report import Wanted, collect

        folder = DataDir(Path(settings.settings.data_dir))
        wanted = Wanted(
            settings,
            folder,
            lambda: _which_kafka(settings),
            server or "",
            round(log_mb * _MEBI),
        )
        collect(made, wanted)
        subject = f"data folder {folder.path}"
    facts = {
        "made": now.isoformat(timespec="seconds"),
        "of": subject,
        "on": platform.node(),
        "headrace": __version__,
        "Secret objects": {Secrets.OFF: "left out", Secrets.HIDDEN: "values hidden", Secrets.ALL: "SHOWN"}[secrets],
    }
    archive.write(made, path, "Headrace report", facts)
    _print(made, path, output)


def _check(kubernetes: bool, given: dict[str, str]) -> None:
    extra = [name for name, value in given.items() if value]
    if extra and not kubernetes:
        raise UsageError("belongs to --kubernetes", subject=" ".join(extra), hint="Add --kubernetes")
    if bool(given["-n"]) != bool(given["--cluster"]):
        raise UsageError("-n and --cluster go together", subject="report", hint="They name a Strimzi cluster")
    if any(given[name] for name in ("--bridge", "--connect", "--mm2")) and not given["--cluster"]:
        raise UsageError("belongs to a Strimzi cluster", subject=" ".join(extra), hint="Add -n and --cluster")


def _which_kafka(found: Loaded) -> KafkaSettings | None:
    """The Kafka of the settings, else the one that runs on the data folder."""
    from headrace.cli.kafka_target import try_target

    settings = found.settings
    if settings.kafka.bootstrap_servers:
        return kafka_settings(settings)
    return try_target(None, settings.kafka.auth or None, settings.data_dir)


def _kafka_of(made: Report, settings: Loaded) -> None:
    from headrace.home.report.kafka import collect_kafka

    with made.section("kafka"):
        collect_kafka(made, kafka_settings(settings.settings), settings.settings.instance)


def _print(made: Report, path: Path, output: Format) -> None:
    gaps = made.gaps()
    if output in (Format.JSON, Format.YAML):
        found = {
            "file": str(path),
            "documents": [one.path for one in made.documents],
            "missing": [{"what": gap.what, "reason": gap.reason} for gap in gaps],
        }
        print_data(found, output)
        return
    if gaps:
        error_console().print(
            f"Not everything could be collected: reports/missing.txt in the file says what and why ({len(gaps)}).", markup=False
        )
    console().print(f"Report file {path} created", markup=False)
