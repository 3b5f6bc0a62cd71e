"""What a lane has done since its worker started."""

from __future__ import annotations


class Counts:
    """Numbers of events (`failed`: of attempts), and for people the last error, and what events wait for that is not the subscriber."""

    __slots__ = ("blocked", "dead_lettered", "delivered", "dropped", "failed", "kept", "last_error", "lost")

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self.dead_lettered = 0
        self.dropped = 0
        self.kept = 0
        self.lost = 0
        self.last_error = ""
        self.blocked = ""

    @property
    def finished(self) -> int:
        """Events that are done with, however they ended."""
        return self.delivered + self.dead_lettered + self.dropped + self.kept
