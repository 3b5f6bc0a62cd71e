"""The Kafka adapters, as far as they need no Kafka."""
