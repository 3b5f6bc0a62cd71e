"""Adapters to Kafka: connection settings, admin, compacted tables, the embedded broker, log files."""
