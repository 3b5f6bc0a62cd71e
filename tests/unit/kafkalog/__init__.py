"""The offline reader of Kafka's files, without Kafka."""
