"""The process that forks the Python workers, in place of Spark's own.

Importing what every worker needs here, once, makes a fork ready in milliseconds (a restart takes 1.5 s instead of 4.5 s) and
lets all workers share the memory. `gc.freeze` keeps the collector from touching, and so copying, those pages. Nothing is
started here: no thread, no socket, no client, since none of these survives a fork.

A worker holds thousands of events and makes no cycles of what it makes for each: the collector's usual pace, a look at the youngest
after 700 new objects, costs 7 % of its time and finds nothing.
"""

from __future__ import annotations

import gc

import pyspark.daemon
import pyspark.worker

from headrace.base import threaddumps
from headrace.dispatcher import worker

PRELOADED = worker
"""What the forks share: it brings Arrow, the HTTP client and the Kafka client with it."""

_COLLECT_AFTER = (50_000, 20, 50)
"""New objects until the collector looks at the youngest generation, and how many of its rounds until it looks at the next."""

if __name__ == "__main__":
    threaddumps.answer()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    pyspark.daemon.manager()
