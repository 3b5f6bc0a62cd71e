"""One Kafka record as one binary value, made by a SQL expression: Arrow costs per column, Kafka's seven columns ten times as much.

The frame, all numbers big-endian and signed, -1 as a length for null (which is not the same as empty):

    int32 partition | int64 offset | int64 timestamp (ms) | int32 length + key
    int32 number of headers | per header: int32 length + name (UTF-8), int32 length + value
    int32 length + value

`core.frame` reads it. Nothing is assumed to be UTF-8 but header names, which Spark gives as text. Numbers become bytes by a cast,
for which the session must not be in ANSI mode.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

FRAME_COLUMN = "frame"
FRAME_SCHEMA = f"{FRAME_COLUMN} binary"

_EMPTY = "cast('' as binary)"


def _measured(field: str) -> str:
    """Length and content of a binary field."""
    return f"cast(coalesce(octet_length({field}), -1) as binary), coalesce({field}, {_EMPTY})"


_UNROLLED = 16
"""Headers that are taken one by one. A lambda over an array is interpreted, value by value, and cost more than all else that Java does for an
event; what is written out is compiled. Few events have more headers than this: for the rest of those there is the lambda."""


def _header(header: str) -> str:
    return f"cast(octet_length({header}.key) as binary), cast({header}.key as binary), {_measured(f'{header}.value')}"


_FIRST_HEADERS = ", ".join(f"coalesce(concat({_header(f'headers[{index}]')}), {_EMPTY})" for index in range(_UNROLLED))
_MORE_HEADERS = (
    f"if(array_size(headers) > {_UNROLLED}, aggregate(slice(headers, {_UNROLLED + 1}, array_size(headers)), {_EMPTY}, "
    f"(frame, header) -> concat(frame, {_header('header')})), {_EMPTY})"
)

FRAME_SQL = (
    "concat(cast(partition as binary), cast(offset as binary), cast(unix_millis(timestamp) as binary), "
    f"{_measured('key')}, cast(coalesce(array_size(headers), 0) as binary), {_FIRST_HEADERS}, {_MORE_HEADERS}, "
    f"{_measured('value')})"
)


def framed(records: DataFrame) -> DataFrame:
    """The one column `frame` of a Kafka source that was asked for headers."""
    return records.select(F.expr(FRAME_SQL).alias(FRAME_COLUMN))


def pushed(frames: DataFrame) -> DataFrame:
    """Each frame followed by a null row, in Real-Time Mode.

    After a row Spark asks its input for the next one before it hands the row on, and there that blocks until the partition's next event.
    The null row takes the place of that event: it pushes the frame out at once and is ignored by who reads.
    """
    return frames.select(F.explode(F.array(FRAME_COLUMN, F.lit(None).cast("binary"))).alias(FRAME_COLUMN))
