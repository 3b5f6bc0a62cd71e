"""Offsets of consumer groups without being a member: read, set, deleted with their group.

Over `kafka.wire`, not by librdkafka's admin client: that one crashes its process (an assertion) when the broker that coordinates a
group goes away at the wrong moment, and a process that mirrors offsets all the time always meets that moment. One connection per
coordinator is kept open; an answer that the coordinator has moved, is loading, or is gone makes it be looked up again.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import KafkaError

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable, Terminal
from headrace.kafka.settings import KafkaSettings
from headrace.kafka.wire import Connection, KeyType, Node, connect, connect_any

T = TypeVar("T")
Offsets = Mapping[tuple[str, int], int]

_AGAIN_SECONDS = 0.1
_UNAVAILABLE = "UNAVAILABLE"
_COORDINATOR_COMES = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why Kafka did not take the offset of one partition: its error name (`UNKNOWN_MEMBER_ID`: the group has members) and text."""

    code: str
    text: str

    @property
    def has_members(self) -> bool:
        """Somebody consumes with this group, so that only they may commit."""
        return self.code == "UNKNOWN_MEMBER_ID"


class GroupClient:
    """The groups of one Kafka. May be shared by threads, which take turns. Calls last about `timeout` seconds at most.

    Connections are closed when this object is no longer used.
    """

    def __init__(self, settings: KafkaSettings, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout
        self._lock = threading.Lock()
        self._coordinators: dict[str, Node] = {}
        self._open: dict[Node, tuple[Connection, ExitStack]] = {}
        weakref.finalize(self, _close_all, self._open)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """All that `group` has committed: (topic, partition) -> offset; empty for a group that does not exist."""
        return self._at_coordinator(group, lambda connection: connection.group_offsets(group))

    def commit_many(self, commits: Mapping[str, Offsets]) -> dict[str, dict[tuple[str, int], Refusal]]:
        """Set offsets of groups that have no members: group -> what was refused; empty means all is set.

        Nothing is raised for a group that can't be reached within the timeout (of all together): each of its partitions is refused.
        """
        deadline = Deadline(self._timeout)
        return {group: self._commit(group, offsets, deadline) for group, offsets in commits.items()}

    def _commit(self, group: str, offsets: Offsets, deadline: Deadline) -> dict[tuple[str, int], Refusal]:
        def ask(connection: Connection) -> dict[tuple[str, int], int]:
            codes = connection.commit_offsets(group, offsets)
            _raise_if_moved(codes.values(), group)
            return codes

        if deadline.expired:
            return dict.fromkeys(offsets, Refusal(_UNAVAILABLE, "Kafka did not answer for other groups before"))
        try:
            codes = self._at_coordinator(group, ask, deadline)
        except HeadraceError as error:
            return dict.fromkeys(offsets, Refusal(_UNAVAILABLE, error.message))
        return {partition: _refusal(code) for partition, code in codes.items() if code}

    def delete(self, group: str) -> None:
        """Delete a group with its offsets; one that does not exist is as good as deleted. One with members is `Terminal`."""

        def ask(connection: Connection) -> int:
            code = connection.delete_group(group)
            _raise_if_moved([code], group)
            return code

        code = self._at_coordinator(group, ask)
        if code not in (0, KafkaError.GROUP_ID_NOT_FOUND):
            hint = "Stop its consumers first" if code == KafkaError.NON_EMPTY_GROUP else ""
            raise Terminal(_refusal(code).text, subject=f"group {group}", hint=hint)

    def _at_coordinator(self, group: str, ask: Callable[[Connection], T], deadline: Deadline | None = None) -> T:
        deadline = deadline or Deadline(self._timeout)
        while True:
            try:
                with self._lock:
                    return self._ask(group, ask)
            except Retriable as error:
                if deadline.expired:
                    raise Retriable(error.message, subject=f"group {group}", hint=error.hint) from error
            time.sleep(_AGAIN_SECONDS)

    def _ask(self, group: str, ask: Callable[[Connection], T]) -> T:
        node = self._coordinators.get(group) or self._find(group)
        try:
            return ask(self._connection(node))
        except OSError as error:
            self._drop(node)
            self._coordinators.pop(group, None)
            raise Retriable(f"the connection broke: {error.strerror or error}", subject=f"group {group}") from error
        except HeadraceError:
            self._drop(node)
            self._coordinators.pop(group, None)
            raise

    def _find(self, group: str) -> Node:
        with connect_any(self._settings, self._timeout) as connection:
            self._coordinators[group] = connection.find_coordinator(group, KeyType.GROUP)
        return self._coordinators[group]

    def _connection(self, node: Node) -> Connection:
        if node not in self._open:
            stack = ExitStack()
            self._open[node] = (stack.enter_context(connect(self._settings, node.host, node.port, self._timeout)), stack)
        return self._open[node][0]

    def _drop(self, node: Node) -> None:
        if node in self._open:
            self._open.pop(node)[1].close()


def _close_all(connections: dict[Node, tuple[Connection, ExitStack]]) -> None:
    while connections:
        connections.popitem()[1][1].close()


def _raise_if_moved(codes: Iterable[int], group: str) -> None:
    moved = next((code for code in codes if code in _COORDINATOR_COMES), None)
    if moved is not None:
        raise Retriable(_refusal(moved).text, subject=f"group {group}")


def _refusal(code: int) -> Refusal:
    error = KafkaError(code)
    return Refusal(error.name(), error.str() or error.name())
