"""Logging: a constant sentence plus fields, as text for people or JSON for machines.

    log = get_logger(__name__)
    log.info("Query started", topic=topic, run=run)

Values stay fields, so that they can be searched for; nothing is formatted into the sentence.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO

_FIELDS = "headrace_fields"


class Logger:
    """A standard logger whose calls take fields as keyword arguments."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, sentence: str, **fields: Any) -> None:
        self._log(logging.DEBUG, sentence, fields)

    def info(self, sentence: str, **fields: Any) -> None:
        self._log(logging.INFO, sentence, fields)

    def warning(self, sentence: str, **fields: Any) -> None:
        self._log(logging.WARNING, sentence, fields)

    def error(self, sentence: str, **fields: Any) -> None:
        self._log(logging.ERROR, sentence, fields)

    def exception(self, sentence: str, **fields: Any) -> None:
        """Like `error`, with the traceback of the exception that is being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._logger.error(sentence, exc_info=True, extra={_FIELDS: fields})

    def _log(self, level: int, sentence: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, sentence, extra={_FIELDS: fields})


def get_logger(name: str) -> Logger:
    """The logger of a module; call it with `__name__`."""
    return Logger(name)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = getattr(record, _FIELDS, {})
        tail = "".join(f" {key}={_plain(value)}" for key, value in fields.items())
        line = f"{moment}.{int(record.msecs):03d}Z {record.levelname:<7} {record.getMessage()}{tail}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        out: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        out.update(getattr(record, _FIELDS, {}))
        if record.exc_info:
            out["exception"] = self.formatException(record.exc_info)
        return json.dumps(out, default=str)


def _plain(value: Any) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c == '"' for c in text) else text


def configure(*, json_format: bool = False, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (default: standard error). Safe to call again."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if json_format else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("py4j", "urllib3", "kubernetes", "httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
