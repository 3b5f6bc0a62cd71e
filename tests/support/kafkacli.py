"""`headrace kafka ...` as a user calls it, within the test's process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from headrace.cli.kafka import app
from headrace.kafka.settings import KafkaSettings


@dataclass(frozen=True)
class Printed:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def data(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Standard output as one JSON object per line."""
        return [json.loads(line) for line in self.lines]


class KafkaCommands:
    """Runs the commands against one Kafka. Errors that a command raises are raised."""

    def __init__(self, settings: KafkaSettings | None = None, *options: str) -> None:
        self._options = [*(["--bootstrap-servers", settings.bootstrap_servers] if settings else []), *options]

    def __call__(self, *words: object, stdin: str = "") -> Printed:
        """`kafka("topics", "list")`; the connection's options are added."""
        result = CliRunner().invoke(app, [*map(str, words), *self._options], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Printed(result.exit_code, result.stdout, result.stderr)
