"""One running `headrace up` for most of the tests here; each makes its own Brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.system import Inbox, System


@pytest.fixture(scope="session")
def session_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    running = System(tmp_path_factory.mktemp("headrace") / "data").start()
    yield running
    running.stop()


@pytest.fixture
def system(session_system: System) -> Iterator[System]:
    """The running system; what a test made in it is deleted afterwards."""
    yield session_system
    session_system.tidy()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """A subscriber of the test's own."""
    made = Inbox()
    yield made
    made.close()
