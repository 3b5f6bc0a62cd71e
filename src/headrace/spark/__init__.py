"""Adapters to Spark: the session, the frame that carries a record into Python, queries and jobs."""
