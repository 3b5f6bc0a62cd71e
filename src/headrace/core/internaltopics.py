"""How the internal topics are made. Whichever process comes first creates those it needs: creating one that exists is no error.

One partition each, so that an offset says exactly how much of a topic somebody has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.names import Internal

PARTITIONS = 1
_HOUR_MS = 3_600_000

_COMPACTED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    # Small segments and an upper bound: positions are written each second, and whoever starts reads the topic from its beginning.
    "segment.bytes": str(16 << 20),
    "segment.ms": str(_HOUR_MS),
    "max.compaction.lag.ms": str(_HOUR_MS),
    "min.cleanable.dirty.ratio": "0.2",
    # A reader that was away for less than a day still sees what was removed.
    "delete.retention.ms": str(24 * _HOUR_MS),
}
_HOURLY: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(_HOUR_MS),
    "segment.ms": str(_HOUR_MS // 6),
    "segment.bytes": str(16 << 20),
    # With many lanes an hour of reports is large; who starts needs the last few seconds of them.
    "retention.bytes": str(64 << 20),
    # The report of a worker with thousands of lanes is one record.
    "max.message.bytes": str(8 << 20),
}
_KEPT: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One topic with its settings at Kafka."""

    name: str
    config: Mapping[str, str]


def internal_topics(names: Internal) -> tuple[InternalTopic, ...]:
    """All of them."""
    return (
        InternalTopic(names.resources, _COMPACTED),
        InternalTopic(names.contract, _COMPACTED),
        InternalTopic(names.progress, _COMPACTED),
        InternalTopic(names.dataplane, _HOURLY),
        InternalTopic(names.undeliverable, _KEPT),
    )
