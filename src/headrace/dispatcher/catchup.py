"""Catch-up beside a live query: lanes that its workers parked, brought to the end by jobs, and handed back.

    PARKED --(job over a part of what is missing)--> PARKED --(job to the end of the log, ring pinned from there)--> resume -->
    LIVE

The live worker acts on `LaneOrders` in the contract topic and answers in its reports. A report counts for a lane only when its
worker had read the last order about it: else a lane that was just handed back would be taken for parked, and served twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from headrace.core.progress import ProgressRecord
from headrace.dispatcher.catchup_plan import JobPlan, Place, at_end
from headrace.dispatcher.jobs import Jobs, Outcome
from headrace.dispatcher.live_run import LiveRun
from headrace.dispatcher.preparation import TopicContext
from headrace.dispatcher.selection import Lane
from headrace.dispatcher.spec import LaneOrders

_LOOK_SECONDS = 0.3
_PARKED = "PARKED"


class CatchUp:
    """For one live run. Belongs to the topic's thread."""

    def __init__(self, context: TopicContext, live: LiveRun, jobs: Jobs) -> None:
        self._context = context
        self._live = live
        self._jobs = jobs
        self._pins: dict[Place, int] = {}
        self._resumes: dict[Place, ProgressRecord] = {}
        self._ordered: dict[Place, int] = {}
        self._next_look = 0.0

    def tick(self, lanes: Mapping[str, Lane]) -> None:
        """Move on. `lanes`: the open ones."""
        outcomes = self._jobs.poll()
        for outcome in outcomes:
            self._hand_back(outcome)
        now = self._context.services.clock.monotonic()
        if now < self._next_look and not outcomes:
            return
        self._next_look = now + _LOOK_SECONDS
        parked = self._parked(lanes.keys())
        if parked:
            self._serve(parked, lanes)

    def _parked(self, uids: Collection[str]) -> set[Place]:
        """Lanes that their live workers have let go of for good."""
        found: set[Place] = set()
        busy = self._jobs.places
        for index, report in self._live.reports.items():
            if index >= len(self._live.partitions):
                continue
            partition = self._live.partitions[index]
            for uid, lane in report.lanes.items():
                place = uid, partition
                if report.contract_offset < self._ordered.get(place, -1):
                    continue
                if lane.state == _PARKED and not lane.in_flight and uid in uids and place not in busy:
                    found.add(place)
                elif lane.state == "LIVE" and place in self._resumes:
                    del self._resumes[place]
                    self._jobs.is_live(place)
        return found

    def _serve(self, parked: set[Place], lanes: Mapping[str, Lane]) -> None:
        some = {uid: lanes[uid] for uid, _ in parked}
        owned = {(uid, partition) for uid in some for partition in self._live.partitions} - parked
        stored, ends = self._context.located(some, self._live.spec.topic_id, owned)
        records = {place: record for place, record in stored.items() if place in parked}
        waiting = self._jobs.waiting(records, ends, some)
        complete = {one.place: records[one.place] for one in at_end(waiting, ends)}
        if complete:
            self._resume(complete)
            waiting = [one for one in waiting if one.place not in complete]
        free = self._context.services.config.job_slots
        for track, plan in self._jobs.next_plan(waiting, ends, free).items():
            self._pin(plan)
            if not self._jobs.start(track, plan, records, own_slots=True):
                for place in plan.places:
                    self._pins.pop(place, None)

    def _pin(self, plan: JobPlan) -> None:
        """The lanes that this job brings to the end of the log: their workers are to keep what comes from there on."""
        for place in plan.places:
            self._resumes.pop(place, None)
        last = {place: plan.ranges[place[1]][1] for place in plan.places if place[1] in plan.last}
        if last:
            self._pins.update(last)
            self._order(last)

    def _hand_back(self, outcome: Outcome) -> None:
        """Lanes that got to the end of their pinned range go back to their worker; the others wait for the next job."""
        ready: dict[Place, ProgressRecord] = {}
        for place in outcome.plan.places:
            pin = self._pins.pop(place, None)
            record = outcome.records.get(place)
            if pin is not None and record is not None and record.progress.position >= pin:
                ready[place] = record
        if ready:
            self._resume(ready)

    def _resume(self, records: Mapping[Place, ProgressRecord]) -> None:
        self._resumes.update(records)
        self._order(records)

    def _order(self, places: Iterable[Place]) -> None:
        pins: dict[str, dict[int, int]] = {}
        for (uid, partition), offset in self._pins.items():
            pins.setdefault(uid, {})[partition] = offset
        resumes: dict[str, dict[int, str]] = {}
        for (uid, partition), record in self._resumes.items():
            resumes.setdefault(uid, {})[partition] = record.encode().decode()
        offset = self._live.order(LaneOrders(pin=pins, resume=resumes, partitions=self._live.partitions))
        for place in places:
            self._ordered[place] = offset
