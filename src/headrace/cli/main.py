"""The `headrace` command: registers the groups of commands and turns errors into one clear line and an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer

from headrace import __version__
from headrace.base.errors import HeadraceError
from headrace.cli.output import error_console

_RUN, _OBJECTS, _EVENTS, _TOOLS = "Run", "Objects", "Events", "Tools"
COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("headrace.cli.up", "up", _RUN),
    "demo": ("headrace.cli.demo", "demo", _RUN),
    "controller": ("headrace.cli.processes", "controller", _RUN),
    "receiver": ("headrace.cli.processes", "receiver", _RUN),
    "dispatcher": ("headrace.cli.processes", "dispatcher", _RUN),
    "config": ("headrace.cli.configuration", "config", _RUN),
    "report": ("headrace.cli.report", "report", _TOOLS),
    "apply": ("headrace.cli.resources", "apply", _OBJECTS),
    "get": ("headrace.cli.resources", "get", _OBJECTS),
    "describe": ("headrace.cli.resources", "describe", _OBJECTS),
    "delete": ("headrace.cli.resources", "delete", _OBJECTS),
    "top": ("headrace.cli.lanes", "top", _OBJECTS),
    "pause": ("headrace.cli.lanes", "pause", _OBJECTS),
    "replay": ("headrace.cli.replay", "replay", _OBJECTS),
    "resume": ("headrace.cli.lanes", "resume", _OBJECTS),
    "send": ("headrace.cli.events", "send", _EVENTS),
    "sink": ("headrace.cli.events", "sink", _EVENTS),
    "token": ("headrace.cli.token", "token", _EVENTS),
    "tail": ("headrace.cli.events", "tail", _EVENTS),
}
"""Name of a command -> (module, function, panel of the help page); modules are imported when their command is used."""

HIDDEN: dict[str, tuple[str, str]] = {"executor": ("headrace.cli.processes", "executor")}
"""Commands that nobody types."""

GROUPS: dict[str, tuple[str, str, str]] = {
    "deadletters": ("headrace.cli.deadletters", "Undeliverable events: list, show, send again.", _EVENTS),
    "filter": ("headrace.cli.filters", "Try filters out on events.", _EVENTS),
    "kubernetes": ("headrace.cli.kubernetes", "What a cluster is given.", _RUN),
    "kafka": ("headrace.cli.kafka", "Tools for any Kafka: local clusters, topics, records, groups, log files.", _TOOLS),
}
"""Name of a group -> (module with a typer `app`, help line, panel)."""

app = typer.Typer(
    name="headrace",
    help="Knative Eventing on Apache Kafka, with its data pipeline on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version and exit."),
) -> None:
    """Knative Eventing on Apache Kafka, with its data pipeline on Spark."""


def register() -> typer.Typer:
    """The whole command tree."""
    for name, (module, function, panel) in COMMANDS.items():
        app.command(name, rich_help_panel=panel)(getattr(import_module(module), function))
    for name, (module, function) in HIDDEN.items():
        app.command(name, hidden=True)(getattr(import_module(module), function))
    for name, (module, help_line, panel) in GROUPS.items():
        app.add_typer(import_module(module).app, name=name, help=help_line, rich_help_panel=panel, no_args_is_help=True)
    return app


def run() -> None:
    """Entry point. Exit codes: 0, 1 failed, 2 usage, 3 a wait timed out, 130 interrupted."""
    try:
        register()()
    except HeadraceError as error:
        _say(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _say(text: str) -> None:
    error_console().print("error:", style="bold red", end=" ")
    error_console().print(text, markup=False)
