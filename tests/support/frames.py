"""Frames as Spark would hand them over, for tests that run without Spark."""

from __future__ import annotations

import struct
from collections.abc import Iterable


def frame(
    partition: int,
    offset: int,
    *,
    timestamp: int = 1_700_000_000_000,
    key: bytes | None = None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    value: bytes | None = None,
) -> bytes:
    """One record in the layout of `headrace.core.frame`."""
    listed = list(headers)
    parts = [struct.pack(">iqq", partition, offset, timestamp), _sized(key), struct.pack(">i", len(listed))]
    for name, raw in listed:
        parts += [_sized(name.encode()), _sized(raw)]
    return b"".join([*parts, _sized(value)])


def event_frame(
    partition: int,
    offset: int,
    *,
    timestamp: int = 1_700_000_000_000,
    key: bytes | None = None,
    data: bytes | None = b"{}",
    **attributes: str,
) -> bytes:
    """A CloudEvent in binary mode; `attributes` are added to (or replace) plain ones, `datacontenttype` included."""
    merged = {"specversion": "1.0", "id": str(offset), "source": "/test", "type": "test.event", **attributes}
    headers = [("content-type" if name == "datacontenttype" else f"ce_{name}", text.encode()) for name, text in merged.items()]
    return frame(partition, offset, timestamp=timestamp, key=key, headers=headers, value=data)


def _sized(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
