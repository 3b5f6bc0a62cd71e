from __future__ import annotations

import re
from typing import Any

import pytest

from headrace.control.conditions import PASSING, TRUE, Conditions, false, true, unknown, verdict_of
from headrace.core.reasons import ConditionType, Reason

DEPENDENTS = (ConditionType.TOPIC_READY, ConditionType.CONFIG_PARSED)
Json = dict[str, Any]


def status(ready: str, generation: int = 1, reason: str = "") -> Json:
    conditions = [{"type": "TopicReady", "status": ready, "reason": reason, "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    return {"observedGeneration": generation, "conditions": conditions}


@pytest.mark.spec("ES-3", "ES-4")
@pytest.mark.parametrize(
    ("topic", "config", "ready"),
    [
        (TRUE, TRUE, ("True", None)),
        (false(Reason.TOPIC_CREATION_FAILED, "m"), TRUE, ("False", "TopicCreationFailed")),
        (unknown(Reason.TOPIC_CREATING, "m"), TRUE, ("Unknown", "TopicCreating")),
        (unknown(Reason.TOPIC_CREATING, "m"), false(Reason.CONFIG_INVALID, "m"), ("False", "ConfigInvalid")),
        (TRUE, unknown(Reason.CONFIG_NOT_LOOKED_UP, "m"), ("Unknown", "ConfigNotLookedUp")),
    ],
)
def test_ready_is_the_worst_of_its_dependents(topic: Any, config: Any, ready: tuple[str, str | None]) -> None:
    conditions = Conditions({}, 1, 0.0)
    conditions.set(ConditionType.TOPIC_READY, topic)
    conditions.set(ConditionType.CONFIG_PARSED, config)
    last = conditions.build(DEPENDENTS)[-1]
    assert (last["type"], last["status"], last.get("reason")) == ("Ready", *ready)
    assert "severity" not in last


@pytest.mark.spec("ES-7")
def test_what_is_only_for_information_has_that_severity_and_does_not_count() -> None:
    conditions = Conditions({}, 1, 0.0)
    conditions.set(ConditionType.TOPIC_READY, TRUE)
    conditions.inform(ConditionType.LAGGING, true(Reason.CATCHING_UP, "m"))
    built = conditions.build((ConditionType.TOPIC_READY,))
    assert [(item["type"], item.get("severity")) for item in built] == [
        ("TopicReady", None),
        ("Lagging", "Info"),
        ("Ready", None),
    ]


@pytest.mark.parametrize("reason", sorted(PASSING))
def test_what_was_true_stays_true_while_only_that_is_in_the_way(reason: Reason) -> None:
    conditions = Conditions(status("True"), 1, 0.0)
    assert conditions.set(ConditionType.TOPIC_READY, unknown(reason, "m")).ok


@pytest.mark.parametrize("reason", sorted(set(Reason) - PASSING))
def test_any_other_reason_ends_it(reason: Reason) -> None:
    conditions = Conditions(status("True"), 1, 0.0)
    assert not conditions.set(ConditionType.TOPIC_READY, unknown(reason, "m")).ok


@pytest.mark.parametrize("before", [status("True", generation=0), status("Unknown"), status("False"), {}])
def test_nothing_stays_true_that_was_not_true_for_this_generation(before: Json) -> None:
    conditions = Conditions(before, 1, 0.0)
    assert not conditions.set(ConditionType.TOPIC_READY, unknown(Reason.NO_RECEIVER, "m")).ok


@pytest.mark.spec("ES-2")
@pytest.mark.parametrize(
    ("verdict", "since"),
    [(TRUE, "2020-01-01T00:00:00Z"), (false(Reason.CONFIG_INVALID, "m"), "1970-01-01T00:00:09Z")],
)
def test_the_time_is_that_of_the_last_change_of_status(verdict: Any, since: str) -> None:
    conditions = Conditions(status("True"), 2, 9.0)
    conditions.set(ConditionType.TOPIC_READY, verdict)
    assert conditions.build(())[0]["lastTransitionTime"] == since


def test_a_reason_of_somebody_else_is_left_out() -> None:
    assert verdict_of({"status": "False", "reason": "failed to do it", "message": "m"}).reason is None


@pytest.mark.spec("ES-6")
def test_every_reason_and_type_is_one_camel_case_word() -> None:
    for word in (*Reason, *ConditionType):
        assert re.fullmatch(r"([A-Z]+[a-z]*)+", word), word
        assert len(word) <= 64
