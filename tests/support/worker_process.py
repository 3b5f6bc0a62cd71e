"""`python -m tests.support.worker_process SPEC`: `run_partition` with the pickled spec; frames come by standard input, length first."""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from headrace.dispatcher.worker import run_partition


def batches() -> Iterator[pa.RecordBatch]:
    """One batch per frame, each followed by the null row that pushes it out, as in Real-Time Mode."""
    while len(head := sys.stdin.buffer.read(4)) == 4:
        frame = sys.stdin.buffer.read(struct.unpack(">i", head)[0])
        for row in (frame, None):
            yield pa.RecordBatch.from_arrays([pa.array([row], pa.binary())], names=["frame"])


if __name__ == "__main__":
    for _ in run_partition(pickle.loads(Path(sys.argv[1]).read_bytes()), batches()):
        pass
