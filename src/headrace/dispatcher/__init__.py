"""The dispatcher: a Spark driver with one query per topic, and the worker that delivers a partition."""
