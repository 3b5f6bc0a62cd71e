"""Options that several commands share, and what they mean: settings, the data folder, the server to talk to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.config import Loaded, Settings, load
from headrace.base.errors import Terminal, UsageError

if TYPE_CHECKING:
    from headrace.kafka.settings import KafkaSettings
    from headrace.standalone.client import Client
    from headrace.standalone.datadir import RunState

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings file (default: headrace.toml, if there is one).")
]
DataDirOption = Annotated[
    str | None, typer.Option("--data-dir", metavar="DIR", help="Data folder of `headrace up` (default: ./.headrace).")
]
InstanceOption = Annotated[str | None, typer.Option("--instance", help="Prefix of the internal topics (default: headrace).")]
BootstrapOption = Annotated[
    str | None, typer.Option("--bootstrap-servers", metavar="HOST:PORT,...", help="Address of the Kafka to use.")
]
AuthOption = Annotated[
    str | None, typer.Option("--kafka-auth", metavar="FILE", help="v1 Secret manifest with the credentials for that Kafka.")
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", envvar="HEADRACE_SERVER", help="Controller to talk to (default: that of the data folder)."
    ),
]
NamespaceOption = Annotated[str, typer.Option("-n", "--namespace", help="Namespace.")]
LogFormatOption = Annotated[str | None, typer.Option("--log-format", help="text or json.")]
LogLevelOption = Annotated[str | None, typer.Option("--log-level", help="DEBUG, INFO, WARNING or ERROR.")]

_HINT = "Start one with `headrace up`, or name another with --server or HEADRACE_SERVER"


def loaded(config: Path | None, flags: Mapping[str, Any]) -> Loaded:
    """The settings in force; `flags` maps dotted names to values, None = not given."""
    return load(config, os.environ, flags)


def kafka_settings(settings: Settings) -> KafkaSettings:
    """The connection that the settings name. Raises `UsageError` when they name none."""
    from headrace.kafka.settings import Auth, KafkaSettings, load_auth

    if not settings.kafka.bootstrap_servers:
        raise UsageError("which Kafka?", hint="Give --bootstrap-servers HOST:PORT, or start everything with `headrace up`")
    auth = load_auth(settings.kafka.auth) if settings.kafka.auth else Auth.none()
    return KafkaSettings(settings.kafka.bootstrap_servers, auth)


def running(data_dir: str | None, config: Path | None = None) -> RunState:
    """What runs on the data folder. Raises `Terminal` when nothing does."""
    from headrace.standalone.datadir import DataDir

    folder = DataDir(Path(loaded(config, {"data_dir": data_dir}).settings.data_dir))
    run = folder.read_run()
    if run is None or not folder.in_use():
        raise Terminal("no Headrace runs here", subject=f"data folder {folder.path}", hint=_HINT)
    return run


def connect(server: str | None, data_dir: str | None) -> AbstractContextManager[Client]:
    """A client of the controller that was named, or of the one that runs on the data folder."""
    from headrace.standalone.client import Client

    if server:
        return Client(server)
    address = running(data_dir).address("controller")
    if not address:
        raise Terminal("the controller is not there yet", subject="headrace up", hint="Try again in a moment")
    return Client(address)
