"""The worker's pulse: progress and heartbeat once a second, and a heartbeat soon after each change."""

from __future__ import annotations

from headrace.base.clock import Clock
from headrace.dispatcher.spec import Task, WorkerSpec
from headrace.dispatcher.worker.feed import Feed
from headrace.dispatcher.worker.publisher import Publisher
from headrace.dispatcher.worker.reading import Reading
from headrace.dispatcher.worker.reporter import Reporter
from headrace.dispatcher.worker.roster import Roster
from headrace.dispatcher.worker.scribe import Scribe

BEAT = 1.0
_CHANGE_PAUSE = 0.05
_PAUSE_PER_LANE = 0.0002
"""Reports about changes are not sent more often, and less often the more lanes they are about."""


class Pulse:
    """`changed`: something happened that others wait to hear of."""

    def __init__(
        self,
        spec: WorkerSpec,
        task: Task,
        clock: Clock,
        publisher: Publisher,
        feed: Feed,
        roster: Roster,
        reading: Reading,
        scribe: Scribe,
    ) -> None:
        self._clock = clock
        self._feed = feed
        self._roster = roster
        self._reading = reading
        self._scribe = scribe
        self._reporter = Reporter(spec, task, publisher, clock)
        self._next_beat = 0.0
        self._reported_at = 0.0
        self._told = -1
        self.changed = False

    @property
    def due(self) -> float:
        """When `tick` has something to do."""
        return min(self._next_beat, self._reported_at + self._change_pause) if self.changed else self._next_beat

    @property
    def _change_pause(self) -> float:
        return _CHANGE_PAUSE + _PAUSE_PER_LANE * len(self._roster.lanes)

    def hurry(self) -> None:
        """The next beat is now."""
        self._next_beat = 0.0

    def tick(self, now: float) -> bool:
        """Say what is due; whether it was a full beat."""
        if now >= self._next_beat:
            self._next_beat = now + BEAT
            self.write()
            self.report(beat=True)
            return True
        if self.changed and now >= self._reported_at + self._change_pause:
            self.report(beat=False)
        return False

    def write(self, all_of_them: bool = False) -> None:
        """Write progress."""
        if self._roster.ring is not None:
            self._scribe.write(self._roster.partition, self._roster.lanes.values(), all_of_them)

    def report(self, beat: bool, goodbye: bool = False) -> None:
        """Send a heartbeat. That a lane is gone is not said before its last progress is stored: then others take its place over."""
        leaving = bool(self._scribe.leaving)
        self.changed = leaving
        self._reported_at = self._clock.monotonic()
        if not leaving:
            self._told = self._feed.offset
        self._reporter.report(self._roster, self._reading, self._scribe, self._told, beat, goodbye)
