"""`token`: a token of the controller's issuer, for tests and first steps."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.base.errors import UsageError
from headrace.cli.output import Format, OutputOption, print_data
from headrace.cli.settings import DataDirOption, ServerOption, connect

_PREFIX = "system:serviceaccount:"


def token(
    audience: Annotated[list[str], typer.Option("--audience", help="Whom the token is for; repeatable.")],
    subject: Annotated[
        str, typer.Option("--subject", metavar="system:serviceaccount:NS:NAME", help="Whose token it is.")
    ] = f"{_PREFIX}default:default",
    duration: Annotated[str, typer.Option("--duration", help="How long it is valid: 10m, 1h.")] = "1h",
    output: OutputOption = Format.TABLE,
    server: ServerOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Print a token that the receivers of `headrace up` take. Whoever has it can send as its subject: keep it out of logs."""
    from headrace.cli.selection import duration as seconds_of

    namespace, name = account_of(subject)
    seconds = seconds_of(duration, "--duration")
    if seconds < 1:
        raise UsageError("at least a second", subject=f"--duration {duration}")
    with connect(server, data_dir) as client:
        answer = client.token(namespace, name, audience, int(seconds))
    if output in (Format.TABLE, Format.WIDE):
        print(answer["status"]["token"])
    else:
        print_data(answer, output)


def account_of(subject: str) -> tuple[str, str]:
    """Namespace and name of a ServiceAccount's subject."""
    namespace, colon, name = subject.removeprefix(_PREFIX).partition(":")
    if not subject.startswith(_PREFIX) or not namespace or not colon or not name:
        raise UsageError("expected system:serviceaccount:NAMESPACE:NAME", subject=f"--subject {subject!r}")
    return namespace, name
