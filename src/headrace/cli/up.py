"""`up`: the whole system on one machine."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.settings import (
    AuthOption,
    BootstrapOption,
    ConfigOption,
    DataDirOption,
    InstanceOption,
    LogFormatOption,
    LogLevelOption,
    loaded,
)

PortOption = Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0: any free one.")]


def up(
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    instance: InstanceOption = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    free_ports: Annotated[
        bool, typer.Option("--free-ports", help="Any free port for every part whose port is not given.")
    ] = False,
    kafka_port: PortOption = None,
    receiver_port: PortOption = None,
    controller_port: PortOption = None,
    receiver_ops_port: PortOption = None,
    controller_ops_port: PortOption = None,
    dispatcher_ops_port: PortOption = None,
    java: Annotated[str | None, typer.Option("--java", metavar="auto|bundled|PATH", help="Java for Kafka and Spark.")] = None,
    batch_interval: Annotated[
        str | None, typer.Option("--batch-interval", metavar="'500 ms'", help="Micro-batches instead of Real-Time Mode.")
    ] = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Run everything here: Kafka, controller, receiver, dispatcher. Ctrl-C stops it in order."""
    any_port = 0 if free_ports else None

    def port(given: int | None) -> int | None:
        return any_port if given is None else given

    settings = loaded(
        config,
        {
            "data_dir": data_dir,
            "instance": instance,
            "kafka.bootstrap_servers": bootstrap_servers,
            "kafka.auth": kafka_auth,
            "kafka.port": port(kafka_port),
            "kafka.java": java,
            "receiver.port": port(receiver_port),
            "receiver.ops_port": port(receiver_ops_port),
            "controller.port": port(controller_port),
            "controller.ops_port": port(controller_ops_port),
            "dispatcher.ops_port": port(dispatcher_ops_port),
            "dispatcher.batch_interval": batch_interval,
            "logs.format": log_format,
            "logs.level": log_level,
        },
    )
    from headrace.cli.upview import run_up

    run_up(settings)
