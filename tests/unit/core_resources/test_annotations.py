from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.contract import DeliveryOrder
from headrace.core.resources.annotations import (
    OURS,
    RULES,
    From,
    InitialOffset,
    LaneOptions,
    check_annotations,
    lane_options,
)


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("kafka.eventing.knative.dev/delivery.order", "ordered", LaneOptions(order=DeliveryOrder.ORDERED)),
        ("kafka.eventing.knative.dev/delivery.order", "unordered", LaneOptions(order=DeliveryOrder.UNORDERED)),
        ("kafka.eventing.knative.dev/delivery.order", "key", LaneOptions(order=DeliveryOrder.KEY)),
        ("headrace.dev/initial-offset", "latest", LaneOptions()),
        ("headrace.dev/initial-offset", "earliest", LaneOptions(initial_offset=InitialOffset(From.EARLIEST))),
        ("headrace.dev/initial-offset", "1970-01-01T00:01:00Z", LaneOptions(initial_offset=InitialOffset(From.TIME, 60_000))),
        (
            "headrace.dev/initial-offset",
            "1:7,0:5",
            LaneOptions(initial_offset=InitialOffset(From.OFFSETS, offsets=((0, 5), (1, 7)))),
        ),
        ("headrace.dev/until", "0:5", LaneOptions(until=((0, 5),))),
        ("headrace.dev/initial-offset", "PT1M", LaneOptions(initial_offset=InitialOffset(From.AGO, 60_000))),
        ("headrace.dev/keep-position", "true", LaneOptions(keep_position=True)),
        ("headrace.dev/max-rate", "0.5", LaneOptions(max_rate=0.5)),
        ("headrace.dev/max-in-flight", "8", LaneOptions(max_in_flight=8)),
        ("headrace.dev/on-undeliverable", "park", LaneOptions(park_undeliverable=True)),
        ("headrace.dev/on-undeliverable", "drop", LaneOptions()),
        ("headrace.dev/paused", "true", LaneOptions(paused=True)),
        ("headrace.dev/hop-limit", "16", LaneOptions(hop_limit=16)),
    ],
)
def test_an_annotation_of_a_trigger_has_this_meaning(name: str, text: str, options: LaneOptions) -> None:
    assert not list(check_annotations("Trigger", {name: text}))
    assert lane_options({name: text}) == options


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kafka.eventing.knative.dev/delivery.order", "ORDERED"),
        ("headrace.dev/initial-offset", "beginning"),
        ("headrace.dev/initial-offset", "0:1,0:2"),
        ("headrace.dev/until", "0"),
        ("headrace.dev/until", "0:-1"),
        ("headrace.dev/until", "latest"),
        ("headrace.dev/initial-offset", "Pnonsense"),
        ("headrace.dev/initial-offset", "2026-01-01"),
        ("headrace.dev/keep-position", "yes"),
        ("headrace.dev/max-rate", "0"),
        ("headrace.dev/max-rate", "-1"),
        ("headrace.dev/max-rate", "fast"),
        ("headrace.dev/max-rate", "1e3"),
        ("headrace.dev/max-rate", "nan"),
        ("headrace.dev/max-in-flight", "0"),
        ("headrace.dev/max-in-flight", "1.5"),
        ("headrace.dev/max-in-flight", "99999999"),
        ("headrace.dev/on-undeliverable", "keep"),
        ("headrace.dev/paused", "True"),
        ("headrace.dev/hop-limit", "none"),
    ],
)
def test_a_value_that_means_nothing_is_refused_with_what_was_expected(name: str, text: str) -> None:
    (fault,) = check_annotations("Trigger", {name: text})
    assert fault.message == f"invalid value: {text}"
    assert fault.paths == (f"metadata.annotations[{name}]",)
    assert fault.details.startswith(("expected", "no such"))


def test_an_annotation_of_ours_that_does_not_exist_is_refused() -> None:
    (fault,) = check_annotations("Trigger", {"headrace.dev/max-rates": "1"})
    assert (fault.message, fault.details) == ("unknown annotation", "did you mean headrace.dev/max-rate?")
    (fault,) = check_annotations("Secret", {"headrace.dev/zzz": "1"})
    assert fault.details == "known for Secret: none"


def test_annotations_of_others_are_left_alone() -> None:
    assert not list(check_annotations("Trigger", {"example.com/anything": "", "kafka.eventing.knative.dev/other": "x"}))
    assert not list(check_annotations("Channel", {"eventing.knative.dev/scope": "x"}))


def test_every_annotation_of_ours_belongs_somewhere_and_nowhere_else() -> None:
    kinds = {"Broker", "Trigger", "KafkaChannel", "Channel", "Subscription", "EventPolicy", "ConfigMap", "Secret"}
    for name, (where, _) in RULES.items():
        if name.startswith(OURS):
            assert where
            for kind in kinds - where:
                (fault,) = check_annotations(kind, {name: "1"})
                assert fault.message == "this annotation has no effect here"


def test_every_annotation_is_documented_with_its_kinds_and_no_other() -> None:
    text = (Path(__file__).parents[3] / "docs" / "annotations.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")]
    assert {row[0].strip("`"): set(row[1].split(", ")) for row in rows} == {
        name: set(kinds) for name, (kinds, _) in RULES.items()
    }
