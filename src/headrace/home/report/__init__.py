"""What a report collects in both homes, and how it is written."""
