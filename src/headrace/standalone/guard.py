"""Run as a script before a child's own program: ask the kernel to end this process when its parent ends, then become the program.

    python guard.py PARENT_PID PROGRAM ARGUMENT...

The request survives `exec`, so that it also holds for a JVM. Imports nothing of Headrace, to start at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent ended before its child began")
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.exit(f"cannot run {program[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
