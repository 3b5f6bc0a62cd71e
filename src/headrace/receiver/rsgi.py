"""The part of granian's RSGI that a receiver uses, as types: its classes are made in Rust and have no usable hints.

An awaitable of granian is used without an event loop: `add_done_callback` calls back on granian's own Python thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import Protocol as _Face

OnDone = Callable[["Pending"], None]


class Pending(_Face):
    """A result to come."""

    def add_done_callback(self, callback: OnDone, /) -> None:
        """Call `callback(self)` once it is there."""
        ...

    def result(self) -> bytes:
        """The bytes; raises when they can't come any more."""
        ...

    def cancel(self) -> bool:
        """Give up; the callback is called at once."""
        ...


class Headers(_Face):
    """The header lines of a request: names in lower case. Lines whose value is not visible ASCII are left out by all but `keys`."""

    def items(self) -> list[tuple[str, str]]: ...
    def keys(self) -> list[str]: ...
    def __len__(self) -> int:
        """Distinct names, those of lines left out included."""
        ...


class Scope(_Face):
    """One request without its body. `headers` is a copy at each access."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str:
        """Percent-decoded, without the query."""
        ...

    @property
    def authority(self) -> str | None: ...
    @property
    def http_version(self) -> str: ...
    @property
    def headers(self) -> Headers: ...


class Protocol(_Face):
    """Body and response of one request. Responses may be sent from any thread; all but the first are dropped."""

    def __call__(self) -> Pending:
        """The whole body, of any size; fails when it is cut off (HTTP/2: may end early instead)."""
        ...

    def __aiter__(self) -> Any:
        """Read by `__anext__` from now on."""
        ...

    def __anext__(self) -> Pending:
        """The next chunk; raises `StopAsyncIteration` after an empty one that was the end."""
        ...

    def client_disconnect(self) -> Pending:
        """Done when the client has gone before its answer; must be cancelled otherwise."""
        ...

    def response_empty(self, status: int, headers: list[tuple[str, str]], /) -> None: ...
    def response_str(self, status: int, headers: list[tuple[str, str]], body: str, /) -> None: ...


class Watcher(_Face):
    """What granian hands over for each request."""

    @property
    def scope(self) -> Scope: ...
    @property
    def proto(self) -> Protocol: ...
