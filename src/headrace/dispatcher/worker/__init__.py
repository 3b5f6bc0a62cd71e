"""What runs in one Python worker, for one partition: see `spec` (of the package above) for its place, `engine` for its heart.

Spark's input --> intake --> engine: ring --> lanes --> courier --> HTTP client, publisher
                   contract records --^                    |
                                progress (scribe) and heartbeats (reporter)
"""

from headrace.dispatcher.worker.run import run_partition

__all__ = ["run_partition"]
