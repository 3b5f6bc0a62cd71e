"""Options of Spark's Kafka source for the two ways in which we read: a topic from given offsets on, and a range of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A topic and how to reach it: `options` are the `kafka.*` ones of the connection, `group_prefix` is for the ACLs of Spark's group."""

    topic: str
    options: Mapping[str, str]
    group_prefix: str = "headrace"

    def _base(self) -> dict[str, str]:
        return {"includeHeaders": "true", "groupIdPrefix": self.group_prefix, **self.options}

    def stream(self, starts: Mapping[int, int]) -> dict[str, str]:
        """From `starts` on; every partition of the topic must be in it, and every offset within the log."""
        return self._base() | {"subscribe": self.topic, "startingOffsets": self._offsets(starts)}

    def batch(self, ranges: Mapping[int, tuple[int, int]]) -> dict[str, str]:
        """The partitions in `ranges`, from the first offset of each to before the second. Offsets that are gone end the job.

        Spark keeps its consumers for those who name the same group: with a group of its own every job would leave one per partition
        behind, with what that has fetched. Nothing is ever asked of the group.
        """
        return self._base() | {
            "kafka.group.id": f"{self.group_prefix}-jobs",
            "assign": json.dumps({self.topic: sorted(ranges)}),
            "startingOffsets": self._offsets({partition: start for partition, (start, _) in ranges.items()}),
            "endingOffsets": self._offsets({partition: end for partition, (_, end) in ranges.items()}),
            "failOnDataLoss": "true",
        }

    def _offsets(self, offsets: Mapping[int, int]) -> str:
        return json.dumps({self.topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})
