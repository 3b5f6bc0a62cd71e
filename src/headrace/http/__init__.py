"""Adapters to HTTP: the delivery client, the operations endpoint of each process."""
