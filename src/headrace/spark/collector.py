"""The garbage collector of Spark's JVMs: a small, simple one, with room for what a job holds as it begins."""

COLLECTOR = ("-XX:+UseSerialGC", "-XX:SurvivorRatio=2")
"""What a job's tasks have read at their beginning outlives a collection or two. With the usual room for that (a tenth of the new objects') it
was kept for good, and every other job ended in a full collection, for which live events waited 200 ms."""
