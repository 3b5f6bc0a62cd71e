"""RFC 3339 times, as Kubernetes writes them: UTC, whole seconds (`2026-01-31T10:00:00Z`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_PATTERN = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)",
    re.ASCII,
)


def format_time(seconds: float) -> str:
    """Unix seconds as an RFC 3339 time."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> int:
    """Unix milliseconds of an RFC 3339 time with an offset. Raises `ValueError` with a text that says what was expected.

    A leap second counts as the second before it.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError("expected an RFC 3339 time with an offset, such as 2026-01-31T10:00:00Z")
    *clock, second, fraction, offset = match.groups()
    iso = f"{clock[0]}-{clock[1]}-{clock[2]}T{clock[3]}:{clock[4]}:{min(int(second), 59) if second == '60' else second}"
    try:
        moment = datetime.fromisoformat(iso + ("+00:00" if offset in "Zz" else offset))
        millis = int((fraction or "0").ljust(3, "0")[:3])
        return int(moment.timestamp()) * 1000 + millis
    except (ValueError, OverflowError):
        raise ValueError("no such day or time of day exists") from None
