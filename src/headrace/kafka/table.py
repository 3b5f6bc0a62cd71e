"""Compacted topics as tables: a reader that follows one from its beginning, a writer that knows when it has been replaced.

All internal topics have one partition, so an offset says exactly how much of a table somebody has seen.
"""

from __future__ import annotations

from headrace.kafka.table_reader import TableReader
from headrace.kafka.table_writer import TableWriter
from headrace.kafka.transactions import Fenced

__all__ = ["Fenced", "TableReader", "TableWriter"]
