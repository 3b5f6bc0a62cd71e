"""From the settings of a process to the configuration of its part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.base.config import Dispatcher, Settings
from headrace.base.errors import UsageError
from headrace.core.names import Internal
from headrace.dispatcher.config import ContractSource, DispatcherConfig, Only, Secrets, Timing
from headrace.dispatcher.spec import Limits
from headrace.http.tokens import TokenServer
from headrace.kafka.cache import cache_folder
from headrace.kafka.jars import spark_connector_jars
from headrace.kafka.java import java_home
from headrace.kafka.settings import KafkaSettings
from headrace.receiver.config import Issuer, Production, ReceiverConfig, Tls
from headrace.receiver.config import Limits as ReceiverLimits
from headrace.spark.pods import ExecutorPods
from headrace.spark.settings import class_archive
from headrace.standalone.parts import STOP_SECONDS

_MEBI = 1024 * 1024
_LOCAL = "local[256]"
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)\s*")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_RECEIVER_STOP_SECONDS = 7.0
_DISPATCHER_STOP_SECONDS = STOP_SECONDS["dispatcher"] - 3.0
"""So much earlier than its supervisor it gives up on topics that do not drain, so as not to be killed in the midst of its last writes."""


def dispatcher_config(
    settings: Settings, kafka: KafkaSettings, contract: str, only: Sequence[str], secrets: Secrets
) -> DispatcherConfig:
    """Fetches the connector's jars if need be. Raises `UsageError` for a setting that can't be used."""
    own, identity, folder = settings.dispatcher, settings.identity, Path(settings.data_dir).absolute()
    home = java_home(settings.kafka.java)
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    connector = tuple(spark_connector_jars(java=home))
    return DispatcherConfig(
        kafka=kafka,
        contract=ContractSource.parse(contract, Internal(settings.instance).contract),
        work=folder / "spark",
        logs=logs,
        java_home=home.for_spark,
        connector=connector,
        instance=settings.instance,
        only=tuple(Only.parse(one) for one in only),
        master=_LOCAL if own.master == "local" else own.master,
        memory=f"{own.heap_mb}m",
        pods=executor_pods(own),
        classes=class_archive(cache_folder(), home.java, connector),
        batch_interval=span(own.batch_interval, "dispatcher.batch_interval") if own.batch_interval else 0.0,
        ops_host=own.ops_host,
        ops_port=own.ops_port,
        secrets=secrets,
        limits=replace(Limits(), ring_events=own.ring_events, lane_in_flight=own.in_flight),
        budget=own.memory_mb * _MEBI,
        timing=Timing(
            batch=max(1, round(span(own.realtime, "dispatcher.realtime"))),
            grace=own.grace_seconds,
            stop=_DISPATCHER_STOP_SECONDS,
        ),
        log_json=settings.logs.format == "json",
        log_level=settings.logs.level,
        tokens=TokenServer(identity.token_server, _file(identity.token_server_ca_file), _file(identity.token_server_token_file))
        if identity.token_server
        else None,
    )


def receiver_config(settings: Settings, kafka: KafkaSettings, contract: str) -> ReceiverConfig:
    """Raises `UsageError` for half a TLS setting."""
    own = settings.receiver
    if bool(own.tls_cert) != bool(own.tls_key):
        raise UsageError("a certificate and its key go together", subject="receiver.tls_cert, receiver.tls_key")
    if own.tls_port >= 0 and not own.tls_cert:
        raise UsageError(
            "a port for TLS needs a certificate", subject="receiver.tls_port", hint="Set receiver.tls_cert and tls_key"
        )
    identity = settings.identity
    return ReceiverConfig(
        kafka=kafka,
        contract=contract or "kafka:",
        instance=settings.instance,
        host=own.host,
        port=own.port,
        ops_host=own.ops_host,
        ops_port=own.ops_port,
        tls=Tls(Path(own.tls_cert), Path(own.tls_key), own.tls_port if own.tls_port >= 0 else None) if own.tls_cert else None,
        issuer=Issuer(identity.issuer, _file(identity.issuer_ca_file), _file(identity.issuer_token_file))
        if identity.issuer
        else None,
        limits=replace(ReceiverLimits(), body=own.body_limit, events=own.queue_events, bytes=own.queue_mb * _MEBI),
        production=Production(timeout_ms=own.produce_timeout_ms),
        stop_seconds=_RECEIVER_STOP_SECONDS,
    )


def executor_pods(own: Dispatcher) -> ExecutorPods | None:
    """The executors in pods that a dispatcher asks Spark for; None: it asks for none."""
    if not own.executors:
        return None
    return ExecutorPods(
        count=own.executors,
        slots=own.executor_slots,
        template=own.executor_template,
        pod=own.pod,
        host=own.pod_ip,
        driver_port=own.driver_port,
        block_port=own.block_port,
        ca_file=own.api_ca_file,
        token_file=own.api_token_file,
    )


def _file(name: str) -> Path | None:
    return Path(name) if name else None


def span(text: str, name: str) -> float:
    """Seconds of `500 ms`, `2 s`, `1 hour`."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError("expected a span such as '500 ms', '2 s' or '1 hour'", subject=f"{name} {text!r}")
    unit = found[2]
    return float(found[1]) * (0.001 if unit.startswith(("ms", "milli")) else _SECONDS[unit[0]])
