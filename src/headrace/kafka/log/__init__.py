"""Kafka's files, read offline: segments, indexes, producer snapshots and the internal topics' records, without a broker or a JVM.

Everything streams: the memory needed does not depend on the size of a file, only on its largest batch. Nothing here writes.
Formats: Kafka 4.3, `org.apache.kafka.common.record` and KIP-98 (record batches), KIP-32 (message sets), generated messages (`schemas/`).
"""
