"""Which Kafka a tool is for: the one that is named, else the one that runs here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.base.errors import UsageError
from headrace.cli.settings import kafka_settings, loaded
from headrace.standalone.datadir import DataDir

if TYPE_CHECKING:
    from headrace.kafka.settings import KafkaSettings

_HINT = "Give --bootstrap-servers HOST:PORT, or start one with `headrace kafka cluster up`"


def target(bootstrap_servers: str | None, kafka_auth: str | None, data_dir: str | None) -> KafkaSettings:
    """The Kafka of the flags or settings, else that of `headrace up`, else that of `headrace kafka cluster up`, in the data folder.

    Raises `UsageError` when there is none.
    """
    found = try_target(bootstrap_servers, kafka_auth, data_dir)
    if found is None:
        raise UsageError("which Kafka?", hint=_HINT)
    return found


def try_target(bootstrap_servers: str | None, kafka_auth: str | None, data_dir: str | None) -> KafkaSettings | None:
    """Like `target`; None when there is none."""
    from headrace.kafka.cluster.folder import ClusterFolder

    flags = {"kafka.bootstrap_servers": bootstrap_servers, "kafka.auth": kafka_auth, "data_dir": data_dir}
    settings = loaded(None, flags).settings
    if settings.kafka.bootstrap_servers:
        return kafka_settings(settings)
    folder = DataDir(Path(settings.data_dir))
    run = folder.read_run()
    if run is not None and folder.in_use() and run.address("kafka"):
        return kafka_settings(loaded(None, flags | {"kafka.bootstrap_servers": run.address("kafka")}).settings)
    return ClusterFolder(folder.path / "cluster").running_settings()
