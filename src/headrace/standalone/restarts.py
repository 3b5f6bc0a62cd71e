"""When a part that died is started again, and when that is given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_DELAY = 30.0
WINDOW = 120.0
MAX_DEATHS = 5


@dataclass(slots=True)
class Restarts:
    """Deaths of one part. The wait grows 1, 2, 4 ... 30 s, and begins anew once the part has lived for `WINDOW` seconds."""

    deaths: list[float] = field(default_factory=list)
    total: int = 0
    _streak: int = 0

    def died(self, at: float, started: float) -> float | None:
        """A death at `at` (seconds) of a process that started at `started`: how long to wait, or None to give up."""
        self._streak = 0 if at - started >= WINDOW else self._streak
        self.total += 1
        self.deaths = [death for death in self.deaths if at - death < WINDOW] + [at]
        if len(self.deaths) >= MAX_DEATHS:
            return None
        delay = min(MAX_DELAY, 2.0**self._streak)
        self._streak += 1
        return delay
