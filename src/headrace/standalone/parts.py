"""The parts of `headrace up`, from the settings: ports chosen, jars there, how to start each and to see that it works."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.base.config import Loaded, Settings
from headrace.http.ports import choose
from headrace.kafka.cache import cache_folder
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.jars import Progress, kafka_classpath, spark_connector_jars
from headrace.kafka.java import java_home
from headrace.kafka.settings import Auth, KafkaSettings, load_auth
from headrace.spark.settings import class_archive
from headrace.standalone.datadir import DataDir
from headrace.standalone.probes import by_kafka, by_operations
from headrace.standalone.process import Launch
from headrace.standalone.supervisor import Part

STOP_ORDER = ("receiver", "dispatcher", "controller", "kafka")
STOP_SECONDS = {"receiver": 8.0, "dispatcher": 17.0, "controller": 4.0, "kafka": 8.0}
_FLAGS = {
    "receiver.port": "--receiver-port",
    "receiver.ops_port": "--receiver-ops-port",
    "controller.port": "--controller-port",
    "controller.ops_port": "--controller-ops-port",
    "dispatcher.ops_port": "--dispatcher-ops-port",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `up` is going to run. `kafka` is None when another Kafka is used; `settings` have the real ports."""

    settings: Settings
    parts: tuple[Part, ...]
    kafka: EmbeddedKafka | None


def prepare(loaded: Loaded, folder: DataDir, progress: Progress | None = None) -> Prepared:
    """Choose the ports, fetch the jars. Raises `HeadraceError` for a port in use, jars that can't be had, a Kafka that is wrong."""
    settings = _with_ports(loaded.settings)
    home = java_home(settings.kafka.java)
    # Fetched here, where progress can be shown, so that no part waits for them in silence.
    kafka_classpath(progress, java=home)
    connector = spark_connector_jars(progress, java=home)
    kafka: EmbeddedKafka | None = None
    if settings.kafka.bootstrap_servers:
        # What can't be used is told here, and not by each part on its own.
        KafkaSettings(settings.kafka.bootstrap_servers, load_auth(settings.kafka.auth) if settings.kafka.auth else Auth.none())
    else:
        kafka = EmbeddedKafka(
            folder.kafka, settings.kafka.port, java=home, heap_mb=settings.kafka.heap_mb, log_path=folder.log("kafka-server")
        )
        kafka.prepare(progress)
        settings = replace(settings, kafka=replace(settings.kafka, port=kafka.port, bootstrap_servers=kafka.bootstrap))
    records = {
        "kafka": kafka is not None and kafka.records,
        "dispatcher": class_archive(cache_folder(), home.java, connector).missing,
    }
    parts = _parts(settings, loaded, folder, kafka)
    return Prepared(settings, tuple(replace(part, records=records.get(part.name, False)) for part in parts), kafka)


def _parts(settings: Settings, loaded: Loaded, folder: DataDir, kafka: EmbeddedKafka | None) -> list[Part]:
    environment = {**os.environ, **_environment(settings, loaded, folder)}

    def launch(command: str) -> Launch:
        return Launch((sys.executable, "-m", "headrace", command), environment)

    def part(name: str, address: str, ops_port: int, after: tuple[str, ...]) -> Part:
        return Part(
            name,
            lambda: launch(name),
            by_operations(ops_port),
            folder.log(name),
            address=address,
            operations=f"http://127.0.0.1:{ops_port}",
            after=after,
            stop_seconds=STOP_SECONDS[name],
        )

    parts = []
    if kafka is not None:
        parts.append(
            Part(
                "kafka",
                lambda: _kafka_launch(kafka),
                by_kafka(kafka.port),
                folder.log("kafka"),
                address=kafka.bootstrap,
                stop_seconds=STOP_SECONDS["kafka"],
            )
        )
    receiver = f"http://{settings.receiver.host}:{settings.receiver.port}"
    controller = f"http://127.0.0.1:{settings.controller.port}"
    parts += [
        part("controller", controller, settings.controller.ops_port, ("kafka",) if kafka else ()),
        part("receiver", receiver, settings.receiver.ops_port, ("controller",)),
        # Spark takes the longest to start; it makes the topics it needs itself.
        part("dispatcher", "", settings.dispatcher.ops_port, ("kafka",) if kafka else ()),
    ]
    return parts


def _kafka_launch(kafka: EmbeddedKafka) -> Launch:
    kafka.prepare()
    command = kafka.command()
    return Launch(command.argv, command.env)


def _with_ports(settings: Settings) -> Settings:
    """The settings with a real port in the place of each 0, every one of them free, no two alike."""
    chosen: dict[str, dict[str, Any]] = {}
    for name, flag in _FLAGS.items():
        section, _, key = name.partition(".")
        wanted = getattr(getattr(settings, section), key)
        host = settings.receiver.host if name == "receiver.port" else "127.0.0.1"
        taken = {port for ports in chosen.values() for port in ports.values()}
        port = choose(wanted, what=section, flag=flag, host=host)
        while port in taken and wanted == 0:
            port = choose(0, what=section, flag=flag, host=host)
        chosen.setdefault(section, {})[key] = port
    return replace(settings, **{section: replace(getattr(settings, section), **ports) for section, ports in chosen.items()})


def _environment(settings: Settings, loaded: Loaded, folder: DataDir) -> Mapping[str, str]:
    """Everything that is not a default, as the environment of the parts."""
    changed: dict[str, str] = {}
    given = replace(loaded, settings=settings)
    for before, after in zip(loaded.listing(), given.listing(), strict=True):
        if after.origin != "default" or after.value != before.value:
            changed["HEADRACE_" + after.name.replace(".", "_").upper()] = str(after.value)
    receiver = settings.receiver
    reachable = "127.0.0.1" if receiver.host in ("0.0.0.0", "::") else receiver.host
    scheme = "https" if receiver.tls_cert and receiver.tls_port < 0 else "http"
    address = f"{scheme}://{reachable}:{receiver.port}"
    controller = f"http://127.0.0.1:{settings.controller.port}"
    return {
        "HEADRACE_CONTROLLER_ADDRESS_URL": address,
        "HEADRACE_IDENTITY_ISSUER": controller,
        "HEADRACE_IDENTITY_TOKEN_SERVER": controller,
        **changed,
        "HEADRACE_DATA_DIR": str(folder.path),
        "PYTHONUNBUFFERED": "1",
    }
