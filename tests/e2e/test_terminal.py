"""What people see on a terminal: a real pseudo-terminal, read as it is drawn."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.system import HEADRACE, Inbox, Producer, System, broker, new_name, trigger

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A program on a terminal of 200 by 50; `text` is all that was drawn so far, without control sequences."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self.drawn = ""

    @property
    def text(self) -> str:
        return _CONTROL.sub("", self.drawn)

    def until(self, pattern: str, seconds: float) -> str:
        """What was drawn, once the pattern is in it."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, f"{pattern} not within {seconds} s:\n{self.text[-2000:]}"
            if not self._read(0.5):
                assert re.search(pattern, self.text), f"ended with {self.process.poll()}:\n{self.text[-2000:]}"
        return self.text

    def interrupt(self, seconds: float) -> int:
        """Press Ctrl-C; the exit status."""
        os.write(self._screen, b"\x03")
        end = time.monotonic() + seconds
        while self._read(0.5) and time.monotonic() < end:
            pass
        return self.process.wait(max(0.0, end - time.monotonic()))

    def _read(self, seconds: float) -> bool:
        """Read what there is; False at the end."""
        if not select.select([self._screen], [], [], seconds)[0]:
            return True
        try:
            got = os.read(self._screen, 65536)
        except OSError:
            return False
        self.drawn += got.decode(errors="replace")
        return bool(got)


@contextmanager
def terminal(*words: str, folder: Path, env: Sequence[tuple[str, str]] = ()) -> Iterator[Terminal]:
    screen, other = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50", "HEADRACE_DATA_DIR": str(folder)}
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *HEADRACE, *words],
        stdin=other,
        stdout=other,
        stderr=other,
        env=environment | dict(env),
    )
    os.close(other)
    try:
        yield Terminal(process, screen)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(screen)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_up_draws_a_table_that_lives_and_ctrl_c_stops_everything(inbox: Inbox, tmp_path: Path) -> None:
    system = System(tmp_path / "data")
    with terminal("up", "--free-ports", folder=tmp_path / "data") as shown:
        shown.until(r"dispatcher +READY", 240)
        for part in ("kafka", "controller", "receiver"):
            assert re.search(rf"{part} +READY +\S+:\d+ +\d+", shown.text), shown.text[-2000:]
        assert "\x1b[32m" in shown.drawn, "what is ready is green"
        system.apply(broker("seen"), trigger("seen-t", "seen", inbox.url("seen")))
        shown.until(r"1 topics, 1 subscriptions", 60)
        producer = Producer(system.address("broker/seen"))
        assert producer.send() == 202
        producer.close()
        shown.until(r"delivered [1-9]", 60)
        assert shown.interrupt(60) == 0
    assert {part.state for part in system.run.parts.values()} == {"STOPPED"}


@pytest.mark.timeout(300)
def test_top_lives_until_ctrl_c_and_leaves_the_terminal_as_it_was(system: System, inbox: Inbox) -> None:
    name = new_name("watched")
    system.apply(broker(name), trigger(f"{name}-t", name, inbox.url(name)))
    with terminal("top", folder=system.folder.path) as shown:
        shown.until(rf"{name}-t", 60)
        assert "LAG" in shown.text
        assert shown.interrupt(30) == 128 + signal.SIGINT
        assert "Traceback" not in shown.text
        assert shown.drawn.rindex("\x1b[?1049l") > shown.drawn.rindex("\x1b[?1049h")
