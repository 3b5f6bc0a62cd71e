"""The receiver against a real Kafka, by real HTTP."""
