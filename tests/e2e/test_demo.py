"""The demo: one command from nothing to events delivered."""

from __future__ import annotations

import re

import pytest

from tests.support.system import headrace


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_delivers_every_event_once_and_ends_with_status_0() -> None:
    done = headrace("demo", "--events", "200", "--rate", "50", "--exit", timeout=590)
    assert done.returncode == 0, done.stdout + done.stderr
    for subscriber, expected in (("everything", 200), ("orders", 80), ("europe", 80)):
        assert re.search(rf"^{subscriber} +{expected} +{expected} +0 +0 ", done.stdout, re.MULTILINE), done.stdout
    assert "p99 ms" in done.stdout.lower()
