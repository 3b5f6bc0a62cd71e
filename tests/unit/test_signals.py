"""A process that is asked to stop does so, whatever its main thread does just then."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from headrace.base.signals import STOPPING

HEAD = """
import os, signal, threading
from headrace.base.signals import act_on, until_asked
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HEAD + program], capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_ends_an_endless_wait(number: int) -> None:
    ended = run(f"""
stop = until_asked()
os.kill(os.getpid(), {number:d})
stop.wait()
print("stopped")
""")
    assert (ended.returncode, ended.stdout) == (0, "stopped\n")


def test_a_signal_is_no_deadlock_when_the_main_thread_holds_the_lock_of_the_event() -> None:
    ended = run("""
stop = until_asked()
with stop._cond:
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(100_000):
        pass
stop.wait()
print("stopped")
""")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "stopped\n", "")


def test_a_second_signal_ends_a_process_that_stands_still() -> None:
    ended = run("""
stop = until_asked()
os.kill(os.getpid(), signal.SIGTERM)
stop.wait()
print("stopping", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
lock = threading.Lock()
lock.acquire()
lock.acquire()
""")
    assert (ended.returncode, ended.stdout) == (128 + signal.SIGTERM, "stopping\n")


def test_other_signals_are_left_alone() -> None:
    ended = run("""
seen = []
signal.signal(signal.SIGUSR2, lambda *_: seen.append("python"))
act_on([signal.SIGTERM], lambda number: seen.append(number))
os.kill(os.getpid(), signal.SIGUSR2)
while not seen:
    pass
print(seen)
""")
    assert (ended.returncode, ended.stdout) == (0, "['python']\n")


def test_the_main_thread_may_have_a_handler_of_its_own() -> None:
    ended = run("""
done = threading.Event()
def on_main(number, frame):
    raise KeyboardInterrupt
act_on([signal.SIGTERM], lambda number: done.set(), on_main)
try:
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        pass
except KeyboardInterrupt:
    done.wait()
    print("both")
""")
    assert (ended.returncode, ended.stdout) == (0, "both\n")
