"""`controller`, `receiver`, `dispatcher`: one process each, for those who run them apart (and for `headrace up`). `executor`: what
Spark starts for a dispatcher on Kubernetes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.signals import until_asked
from headrace.cli.settings import (
    AuthOption,
    BootstrapOption,
    ConfigOption,
    InstanceOption,
    LogFormatOption,
    LogLevelOption,
    kafka_settings,
    loaded,
)

if TYPE_CHECKING:
    from headrace.base.config import Settings
    from headrace.core.contract import Reference
    from headrace.kafka.settings import Auth, KafkaSettings

PortOption = Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")]
HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on.")]
OpsPortOption = Annotated[
    int | None, typer.Option("--ops-port", min=0, max=65535, help="Port of metrics and health; 0: any free one.")
]
ContractOption = Annotated[
    str,
    typer.Option("--contract", metavar="kafka:TOPIC|file:PATH", help="Where the contract is (default: the instance's topic)."),
]


def controller(
    port: PortOption = None,
    ops_port: OpsPortOption = None,
    address_url: Annotated[str | None, typer.Option("--address-url", help="What `status.address.url` starts with.")] = None,
    kubernetes: Annotated[bool, typer.Option("--kubernetes", help="Be the operator of a Kubernetes cluster.")] = False,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", metavar="FILE", help="The cluster, when this does not run in it.")
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    instance: InstanceOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Run a controller: the store, its REST API, the control loop. Or the operator of a Kubernetes cluster."""
    own = {
        "controller.port": port,
        "controller.ops_port": ops_port,
        "controller.address_url": address_url,
        "kubernetes.kubeconfig": kubeconfig,
    }
    settings = _begin(config, own, bootstrap_servers, kafka_auth, instance, log_format, log_level)
    if kubernetes:
        _operate(settings)
        return
    from headrace.standalone.controller import Controller, ControllerConfig
    from headrace.standalone.datadir import DataDir
    from headrace.standalone.home import home_rules, home_settings

    kafka = kafka_settings(settings)
    wanted = ControllerConfig(
        kafka,
        home_settings(settings, kafka.bootstrap_servers),
        home_rules(),
        port=settings.controller.port,
        ops_port=settings.controller.ops_port,
        issuer_key=DataDir(Path(settings.data_dir)).issuer_key,
    )
    Controller(wanted).run(until_asked())


def dispatcher(
    contract: ContractOption = "",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="KIND/NS/NAME", help="Serve only these Brokers and channels; repeatable."),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", help="Spark master: local, local[N], the address of a cluster, k8s://https://HOST:PORT."),
    ] = None,
    batch_interval: Annotated[
        str | None, typer.Option("--batch-interval", metavar="'500 ms'", help="Micro-batches instead of Real-Time Mode.")
    ] = None,
    java: Annotated[str | None, typer.Option("--java", metavar="auto|bundled|PATH", help="Java for Spark.")] = None,
    ops_port: OpsPortOption = None,
    data_dir: Annotated[str | None, typer.Option("--data-dir", help="Where Spark's files and log go.")] = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    instance: InstanceOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Run a dispatcher: the Spark pipeline that delivers events to subscribers."""
    own = {
        "dispatcher.master": master,
        "dispatcher.batch_interval": batch_interval,
        "dispatcher.ops_port": ops_port,
        "kafka.java": java,
        "data_dir": data_dir,
    }
    settings = _begin(config, own, bootstrap_servers, kafka_auth, instance, log_format, log_level)
    from headrace.cli.wiring import dispatcher_config
    from headrace.dispatcher.driver import run

    kafka = kafka_settings(settings)
    run(dispatcher_config(settings, kafka, contract, only or [], _secrets(settings, kafka)), until_asked())


def executor(config: ConfigOption = None) -> None:
    """Be an executor of a dispatcher on Kubernetes; Spark starts this in pods that it makes."""
    settings = loaded(config, {}).settings
    from headrace.kafka.java import java_home
    from headrace.spark.executor import executor_process

    folder = Path(tempfile.gettempdir()) / "headrace-executor"
    command, environment = executor_process(os.environ, java_home(settings.kafka.java).for_spark, folder)
    os.execve(command[0], command, environment)


def receiver(
    contract: ContractOption = "",
    port: PortOption = None,
    host: HostOption = None,
    ops_port: OpsPortOption = None,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate chain (PEM): speak TLS.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Private key (PEM).")] = None,
    tls_port: Annotated[
        int | None, typer.Option("--tls-port", min=0, max=65535, help="A port of its own for TLS, beside the plain one.")
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_auth: AuthOption = None,
    instance: InstanceOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Run a receiver: takes CloudEvents over HTTP, answers 202 once Kafka has them."""
    own = {
        "receiver.port": port,
        "receiver.host": host,
        "receiver.ops_port": ops_port,
        "receiver.tls_cert": tls_cert,
        "receiver.tls_key": tls_key,
        "receiver.tls_port": tls_port,
    }
    settings = _begin(config, own, bootstrap_servers, kafka_auth, instance, log_format, log_level)
    from headrace.cli.wiring import receiver_config
    from headrace.receiver import run

    kafka = kafka_settings(settings)
    run(receiver_config(settings, kafka, contract), until_asked(), _secrets(settings, kafka))


def _operate(settings: Settings) -> None:
    from headrace.kube.api import connect
    from headrace.kube.home import operator_settings
    from headrace.kube.operator import Operator

    kafka = kafka_settings(settings)
    Operator(connect(settings.kubernetes.kubeconfig), kafka, operator_settings(settings)).run(until_asked())


def _secrets(settings: Settings, kafka: KafkaSettings) -> Callable[[Reference], Auth]:
    """Where Secrets that a contract names are looked up."""
    if settings.kubernetes.secrets:
        from headrace.kube.api import connect
        from headrace.kube.secrets import KubeSecrets

        return KubeSecrets(connect(settings.kubernetes.kubeconfig))
    from headrace.standalone.secrets import StoredSecrets

    return StoredSecrets(kafka, settings.instance)


def _begin(
    config: Path | None,
    own: dict[str, Any],
    bootstrap_servers: str | None,
    kafka_auth: str | None,
    instance: str | None,
    log_format: str | None,
    log_level: str | None,
) -> Settings:
    """The settings in force, with logging as they say; thread dumps are given from here on."""
    from headrace.base import log, threaddumps

    shared = {
        "kafka.bootstrap_servers": bootstrap_servers,
        "kafka.auth": kafka_auth,
        "instance": instance,
        "logs.format": log_format,
        "logs.level": log_level,
    }
    settings = loaded(config, own | shared).settings
    log.configure(json_format=settings.logs.format == "json", level=settings.logs.level)
    threaddumps.answer()
    return settings
