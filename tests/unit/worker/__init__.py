"""The worker, piece by piece."""
