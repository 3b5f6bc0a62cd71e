"""`config`: the settings in force and where each came from."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.output import Format, OutputOption, print_table
from headrace.cli.settings import ConfigOption, loaded

_SECRET_WORDS = ("password", "secret", "token")
_MASKED = "(set, not shown)"


def config(
    prefix: Annotated[
        str, typer.Argument(metavar="[PREFIX]", help="Only settings that begin so, as kafka or receiver.port.")
    ] = "",
    output: OutputOption = Format.TABLE,
    config_file: ConfigOption = None,
) -> None:
    """Show the settings in force and where each came from; -o wide adds what they mean."""
    rows = [
        (setting.name, _shown(setting.name, setting.value), setting.origin, setting.meaning)
        for setting in loaded(config_file, {}).listing()
        if setting.name.startswith(prefix)
    ]
    if output is Format.TABLE:
        print_table(("Setting", "Value", "From"), [row[:3] for row in rows])
    else:
        print_table(("Setting", "Value", "From", "Meaning"), rows, output=output)


def _shown(name: str, value: object) -> object:
    return _MASKED if value and any(word in name for word in _SECRET_WORDS) else value
