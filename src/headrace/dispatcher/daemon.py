"""The process that forks the Python workers, in place of Spark's own.

Importing what every worker needs here, once, makes a fork ready in milliseconds (a restart takes 1.5 s instead of 4.5 s) and
lets all workers share the memory. `gc.freeze` keeps the collector from touching, and so copying, those pages. Nothing is
started here: no thread, no socket, no client, since none of these survives a fork.
"""

from __future__ import annotations

import gc

import pyspark.daemon
import pyspark.worker

from headrace.base import threaddumps
from headrace.dispatcher import worker

PRELOADED = worker
"""What the forks share: it brings Arrow, the HTTP client and the Kafka client with it."""

if __name__ == "__main__":
    threaddumps.answer()
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
