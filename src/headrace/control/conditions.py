"""Conditions of one object: set one by one, then summed up in `Ready`.

    c = Conditions(status, generation, now)
    c.true(TOPIC_READY) ... c.unknown(PROBE_SUCCEEDED, reason, message)
    c.build(DEPENDENTS)

`lastTransitionTime` is kept while the status of a condition stays. Rules: knative/specs, error signalling (ES-1 to ES-7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.reasons import ConditionType, Reason
from headrace.core.resources.timestamps import format_time

Json = dict[str, Any]


PASSING = frozenset(
    {
        Reason.CONFIG_NOT_LOOKED_UP,
        Reason.SECRET_NOT_LOOKED_UP,
        Reason.REFERENCE_NOT_LOOKED_UP,
        Reason.TOPIC_NOT_CHECKED,
        Reason.CONTRACT_NOT_WRITTEN,
        Reason.NO_RECEIVER,
        Reason.RECEIVER_NOT_UP_TO_DATE,
        Reason.POSITIONS_NOT_WRITTEN,
        Reason.NO_DISPATCHER,
        Reason.QUERY_STARTING,
        Reason.INSUFFICIENT_SLOTS,
        Reason.DISPATCHER_PROBLEM,
        Reason.WORKERS_NOT_UP_TO_DATE,
        Reason.RESOLVING,
    }
)
"""Reasons that say nothing about the object itself: the data plane starts again, an answer is on its way."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition's content. A verdict without reason is a plain True."""

    status: str
    reason: Reason | None = None
    message: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is True."""
        return self.status == "True"

    @property
    def passing(self) -> bool:
        """Whether it is not True for a reason that passes by itself."""
        return not self.ok and self.reason in PASSING


TRUE = Verdict("True")


def true(reason: Reason, message: str = "") -> Verdict:
    """It holds, and there is something to say about it."""
    return Verdict("True", reason, message)


def false(reason: Reason, message: str) -> Verdict:
    """It does not hold; somebody has to do something, or it takes long."""
    return Verdict("False", reason, message)


def unknown(reason: Reason, message: str) -> Verdict:
    """It can't be told yet: work is under way."""
    return Verdict("Unknown", reason, message)


def condition_in(status: Mapping[str, Any], kind: str) -> Json:
    """A condition of a status, empty if it has none."""
    return next((item for item in status.get("conditions") or () if item.get("type") == kind), {})


def verdict_of(condition: Mapping[str, Any]) -> Verdict:
    """A condition as it is written, as a verdict. A reason of somebody else's is left out."""
    reason = condition.get("reason")
    known = Reason(reason) if reason in set(Reason) else None
    return Verdict(condition.get("status", "Unknown"), known, condition.get("message", ""))


class Conditions:
    """The conditions of one object, in the order in which they are set."""

    def __init__(self, status: Mapping[str, Any], generation: int | None, now: float, *, any_generation: bool = False) -> None:
        """`status`: the observed one; `generation`: that of the object now.

        `any_generation`: what was given outlives a change of the spec, since nothing that can change touches it.
        """
        self._before = {item.get("type"): item for item in status.get("conditions") or ()}
        self._same = any_generation or status.get("observedGeneration") == generation
        self._now = format_time(now)
        self._set: dict[ConditionType, tuple[Verdict, str]] = {}

    def was_true(self, kind: ConditionType) -> bool:
        """Whether the condition was True for the same generation: what was given is not taken away without cause."""
        return self._same and (self._before.get(kind) or {}).get("status") == "True"

    def before(self, kind: ConditionType) -> Verdict | None:
        """What the condition was for the same generation."""
        item = self._before.get(kind) if self._same else None
        return None if item is None else verdict_of(item)

    def set(self, kind: ConditionType, verdict: Verdict) -> Verdict:
        """Set a condition that counts, if it is among the dependents.

        What was True for this generation stays True while what is in its way passes by itself (`PASSING`): a restart of the data
        plane takes nothing away.
        """
        if verdict.passing and self.was_true(kind):
            verdict = TRUE
        self._set[kind] = (verdict, "")
        return verdict

    def inform(self, kind: ConditionType, verdict: Verdict) -> None:
        """Set a condition that is only for information."""
        self._set[kind] = (verdict, "Info")

    def now_is(self, kind: ConditionType) -> Verdict:
        """What the condition was set to in this pass."""
        return self._set[kind][0]

    def build(self, dependents: Sequence[ConditionType], *, ready: Verdict | None = None) -> list[Json]:
        """All conditions as JSON: the dependents in their order, others as they were set, `Ready` last.

        Ready, if not given, is False if a dependent is, else Unknown if one is, else True.
        """
        last = {ConditionType.READY: (ready or self._summary(dependents), "")}
        order = {kind: self._set[kind] for kind in dependents} | self._set | last
        return [self._json(kind, verdict, severity) for kind, (verdict, severity) in order.items()]

    def _summary(self, dependents: Iterable[ConditionType]) -> Verdict:
        verdicts = [self._set[kind][0] for kind in dependents]
        for status in ("False", "Unknown"):
            for verdict in verdicts:
                if verdict.status == status:
                    return verdict
        return TRUE

    def _json(self, kind: ConditionType, verdict: Verdict, severity: str) -> Json:
        before = self._before.get(kind) or {}
        since = before.get("lastTransitionTime") if before.get("status") == verdict.status else None
        out: Json = {"type": str(kind), "status": verdict.status, "lastTransitionTime": since or self._now}
        if severity:
            out["severity"] = severity
        if verdict.reason:
            out["reason"] = str(verdict.reason)
        if verdict.message:
            out["message"] = verdict.message
        return out
