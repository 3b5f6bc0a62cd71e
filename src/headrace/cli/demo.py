"""`demo`: events flowing, in one command."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    events: Annotated[int, typer.Option("--events", min=1, help="How many events to send.")] = 300,
    rate: Annotated[float, typer.Option("--rate", min=1, help="Events per second.")] = 100,
    leave: Annotated[
        bool,
        typer.Option(
            "--exit", help="End afterwards, with status 0 only if every event reached every subscriber it matches once."
        ),
    ] = False,
    java: Annotated[str | None, typer.Option("--java", metavar="auto|bundled|PATH", help="Java for Kafka and Spark.")] = None,
) -> None:
    """Start everything in a temporary folder, apply the first example, send events and show where they went."""
    from headrace.cli.demonstration import Demonstration

    Demonstration(events, rate, java).run(leave=leave)
