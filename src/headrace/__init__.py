"""Headrace: Knative Eventing on Apache Kafka, with its data pipeline on Spark."""

__version__ = "0.1.0"
