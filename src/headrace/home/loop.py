"""The controller's loop: observe, reconcile, apply, and again on every change.

One thread decides and writes contract and statuses; steps run in a small pool, those of one object never twice at a time. The order is
that of `control.model`: contract, then statuses, then steps.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.control.model import Action, Failure, Json, Notice, ObjectKey, Observed, Plan, Steps
from headrace.control.reconcile import reconcile
from headrace.control.world import ModelCache
from headrace.kafka.table import Fenced

log = get_logger(__name__)
_GATHER_SECONDS = 0.01
_RETRY_SECONDS = 1.0
_AT_LEAST_EVERY = 30.0
_FAILURE_KEPT = 3600.0
_THREADS = 4


@dataclass(frozen=True, slots=True)
class World:
    """What the loop acts on. `observe` is given the failures so far; `write_contract` and `write_statuses` write only what differs.

    `tell` is given each new notice once, after it was logged.
    """

    observe: Callable[[Mapping[Action, Failure]], Observed]
    write_contract: Callable[[Plan], None]
    write_statuses: Callable[[Mapping[ObjectKey, Json]], None]
    follow: Callable[[Plan], None]
    act: Callable[[Action], None]
    tell: Callable[[Notice], None] = lambda notice: None


class ControlLoop:
    """`changed` may be called from any thread; `on_fenced` is called once when another controller has taken over."""

    def __init__(self, world: World, clock: Clock, on_fenced: Callable[[], None]) -> None:
        self._world = world
        self._clock = clock
        self._on_fenced = on_fenced
        self._dirty = threading.Event()
        self._closing = False
        self._lock = threading.Lock()
        self._failures: dict[Action, Failure] = {}
        self._cache = ModelCache()
        self._busy: set[ObjectKey] = set()
        self._told: dict[tuple[str, str, str], None] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="steps")
        self._thread = threading.Thread(target=self._run, name="control loop", daemon=True)
        self._steps: Counter[tuple[str, str]] = Counter()
        self.rounds = 0
        self.problem = ""

    def start(self) -> None:
        self._dirty.set()
        self._thread.start()

    def changed(self) -> None:
        """Something that is observed has changed."""
        self._dirty.set()

    def steps_done(self) -> dict[tuple[str, str], int]:
        """(step, `ok` or `failed`) -> how often."""
        with self._lock:
            return dict(self._steps)

    def close(self) -> None:
        """Finish the round and the steps that are under way."""
        self._closing = True
        self._dirty.set()
        self._thread.join(timeout=10)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self) -> None:
        wait = 0.0
        while not self._closing:
            self._dirty.wait(wait)
            if not self._closing:
                # What comes in together is dealt with together.
                threading.Event().wait(_GATHER_SECONDS)
                self._dirty.clear()
                wait = self._guarded_round()

    def _guarded_round(self) -> float:
        """One round; seconds until the next one at the latest."""
        try:
            wait = self._round()
            self.problem = ""
            return wait
        except Fenced:
            self._on_fenced()
            self._closing = True
        except HeadraceError as error:
            self.problem = str(error)
            log.warning("A round of the control loop failed", error=error)
        except Exception as error:
            self.problem = repr(error)
            log.exception("A round of the control loop failed")
        return _RETRY_SECONDS

    def _round(self) -> float:
        with self._lock:
            self._failures = {a: f for a, f in self._failures.items() if self._clock.now() - f.at < _FAILURE_KEPT}
            failures, busy = dict(self._failures), frozenset(self._busy)
        observed = self._world.observe(failures)
        plan = reconcile(observed, self._cache)
        self._world.follow(plan)
        self._world.write_contract(plan)
        self._world.write_statuses(plan.statuses)
        for steps in plan.steps:
            # Steps that ended since the world was observed are seen in the next round, which their end has asked for.
            if steps.key not in busy:
                self._submit(steps)
        for notice in plan.notices:
            self._tell(notice)
        self.rounds += 1
        return _AT_LEAST_EVERY if plan.again_at is None else min(_AT_LEAST_EVERY, max(0.05, plan.again_at - self._clock.now()))

    def _submit(self, steps: Steps) -> None:
        with self._lock:
            if steps.key in self._busy or self._closing:
                return
            self._busy.add(steps.key)
        self._pool.submit(self._do, steps)

    def _do(self, steps: Steps) -> None:
        try:
            for action in steps.actions:
                if not self._attempt(steps.key, action):
                    return
        finally:
            with self._lock:
                self._busy.discard(steps.key)
            self._dirty.set()

    def _attempt(self, key: ObjectKey, action: Action) -> bool:
        try:
            self._world.act(action)
        except Fenced:
            self._on_fenced()
            return False
        except Exception as error:
            if isinstance(error, HeadraceError):
                log.warning("A step failed", object=key, step=type(action).__name__, error=error)
            else:
                log.exception("A step failed", object=key, step=type(action).__name__)
            with self._lock:
                before = self._failures.get(action)
                self._steps[type(action).__name__, "failed"] += 1
                self._failures[action] = Failure(str(error), before.attempts + 1 if before else 1, self._clock.now())
            return False
        log.info("Step done", object=key, step=type(action).__name__)
        with self._lock:
            self._steps[type(action).__name__, "ok"] += 1
            self._failures.pop(action, None)
        return True

    def _tell(self, notice: Notice) -> None:
        once = (notice.uid, notice.reason, notice.message)
        if once in self._told:
            return
        self._told[once] = None
        if len(self._told) > 10_000:
            self._told.pop(next(iter(self._told)))
        say = log.warning if notice.warning else log.info
        say("Notice about an object", object=notice.key, reason=notice.reason, message=notice.message)
        self._world.tell(notice)
