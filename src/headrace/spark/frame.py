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


_HEADERS = (
    f"aggregate(headers, {_EMPTY}, (frame, header) -> concat("
    f"frame, cast(octet_length(header.key) as binary), cast(header.key as binary), {_measured('header.value')}))"
)

FRAME_SQL = (
    "concat(cast(partition as binary), cast(offset as binary), cast(unix_millis(timestamp) as binary), "
    f"{_measured('key')}, cast(coalesce(array_size(headers), 0) as binary), coalesce({_HEADERS}, {_EMPTY}), {_measured('value')})"
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
