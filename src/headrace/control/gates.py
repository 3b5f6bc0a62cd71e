"""What the heartbeats of the data plane say about one contract record: applied by everybody who has to, or not yet, or refused.

`mark` is the contract offset of the record (or of its tombstone).
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.control.conditions import TRUE, Verdict, false, unknown
from headrace.control.world import World
from headrace.core.heartbeat import DriverReport, ReceiverReport, WorkerReport
from headrace.core.reasons import Reason

_BULK = "BULK"
_SERVED = ("RUNNING", _BULK)


def ingress_applied(world: World, uid: str, mark: int) -> Verdict:
    """Whether every receiver has the record, and takes events for it."""
    receivers = world.data_plane.receivers
    if not receivers:
        return false(Reason.NO_RECEIVER, "no receiver is running")
    for report in receivers:
        if uid in report.closed:
            return false(Reason.INGRESS_CLOSED, f"receiver {report.instance}: {report.closed[uid]}")
    behind = [report for report in receivers if report.contract_offset < mark]
    if behind:
        _again(world, behind)
        names = ", ".join(sorted(report.instance for report in behind))
        return unknown(Reason.RECEIVER_NOT_UP_TO_DATE, f"not applied yet by receiver {names}")
    return TRUE


def ingress_dropped(world: World, mark: int) -> bool:
    """Whether no receiver can still take events for a record that was dropped at `mark`."""
    return not _again(world, [report for report in world.data_plane.receivers if report.contract_offset < mark])


def egress_applied(world: World, topic: str, partitions: int, uid: str, mark: int) -> Verdict:
    """Whether the worker of every partition of the topic has the record, and delivers for it."""
    driver = _driver_of(world, topic)
    if isinstance(driver, Verdict):
        return driver
    report = driver.topics[topic]
    workers = world.data_plane.current[topic]
    for worker in workers:
        if uid in worker.closed:
            return false(Reason.EGRESS_CLOSED, f"the dispatcher does not deliver: {worker.closed[uid]}")
    if report.state == _BULK:
        return (
            TRUE
            if driver.contract_offset >= mark
            else unknown(Reason.WORKERS_NOT_UP_TO_DATE, "the driver has not applied it yet")
        )
    live = [worker for worker in workers if worker.mode == "live"]
    if not live:
        return unknown(Reason.QUERY_STARTING, f"the query over {topic} is starting")
    there = {worker.index for worker in live if worker.contract_offset >= mark}
    needed = max(partitions, live[0].workers)
    if len(there) < needed:
        return unknown(Reason.WORKERS_NOT_UP_TO_DATE, f"applied by {len(there)} of {needed} workers of {topic}")
    return TRUE


def egress_dropped(world: World, topic: str, mark: int) -> bool:
    """Whether no worker can still deliver for a record that was dropped at `mark`, and no driver write to its group.

    A driver that has not taken up any contract yet writes to no group, and will not know of the record.
    """
    drivers = [driver for driver in world.data_plane.drivers if driver.contract_offset >= 0]
    reports: list[WorkerReport | DriverReport] = [*world.data_plane.workers[topic], *drivers]
    return not _again(world, [report for report in reports if report.contract_offset < mark])


def lanes_dropped(world: World, topic: str) -> bool:
    """Whether no worker over `topic` has a lane any more."""
    return not _again(world, [worker for worker in world.data_plane.workers[topic] if worker.lanes])


def drop_mark(world: World, uid: str) -> int | None:
    """The contract offset that a process must have reached to have dropped the record; None while the record is still there."""
    if uid in world.observed.contract:
        return None
    return world.observed.dropped.get(uid, world.observed.contract_end)


def driver_problem(world: World, topic: str, *, behind: bool = False) -> Verdict | None:
    """What keeps the driver from serving the topic, if it says so; a topic that is served has problems only with lanes that are `behind`."""
    driver = world.data_plane.driver_of.get(topic)
    report = None if driver is None else driver.topics[topic]
    if report is None or not report.problem or (report.state in _SERVED and not behind):
        return None
    reason = Reason(report.problem) if report.problem in set(Reason) else Reason.DISPATCHER_PROBLEM
    return false(reason, report.message or report.problem)


def _driver_of(world: World, topic: str) -> DriverReport | Verdict:
    if not world.data_plane.drivers:
        return false(Reason.NO_DISPATCHER, "no dispatcher is running")
    driver = world.data_plane.driver_of.get(topic)
    if driver is None:
        return unknown(Reason.QUERY_STARTING, f"the dispatcher has not taken up {topic} yet")
    return driver_problem(world, topic) or driver


def _again(world: World, waited_for: Sequence[ReceiverReport | WorkerReport | DriverReport]) -> bool:
    """Whether anybody is waited for; then look again when the first lease ends, since the dead report nothing."""
    for report in waited_for:
        world.again(report.at / 1000 + world.settings.lease_s + 0.001)
    return bool(waited_for)
