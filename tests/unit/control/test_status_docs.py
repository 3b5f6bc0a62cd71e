from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.control import broker, channel, kafkachannel, policies, subscription, trigger
from headrace.control.conditions import PASSING
from headrace.core.reasons import ConditionType, Reason

DOCS = (Path(__file__).parents[3] / "docs" / "status.md").read_text()


def rows(heading: str, head: str) -> dict[str, str]:
    """First column -> second, of the table with this head under a heading; code marks kept."""
    part = DOCS.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = part.split(f"| {head} |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {row[0]: row[1] for row in cells}


def test_every_reason_is_explained_and_no_other() -> None:
    listed = [re.findall(r"`(\w+)`", name)[0] for name in rows("Reasons", "reason | what it means, what to do")]
    assert listed == [str(reason) for reason in Reason]


def test_the_reasons_that_pass_by_themselves_are_marked() -> None:
    marked = {name.split("`")[1] for name in rows("Reasons", "reason | what it means, what to do") if "↻" in name}
    assert marked == {str(reason) for reason in PASSING}


def test_every_condition_is_explained_and_no_other() -> None:
    listed = {name.strip("`") for name in rows("Conditions", "condition | True means")}
    assert listed == {str(kind) for kind in ConditionType} - {"Ready"}


@pytest.mark.parametrize(
    ("kind", "dependents"),
    [
        ("Broker", broker.DEPENDENTS),
        ("Trigger", trigger.DEPENDENTS),
        ("KafkaChannel", kafkachannel.DEPENDENTS),
        ("Channel", channel.DEPENDENTS),
        ("Subscription", subscription.DEPENDENTS),
        ("EventPolicy", policies.DEPENDENTS),
    ],
)
def test_the_conditions_of_each_kind_are_listed_in_their_order(kind: str, dependents: tuple[ConditionType, ...]) -> None:
    listed = rows("Conditions", "kind | conditions, in this order")[kind]
    assert re.findall(r"`(\w+)`", listed) == [*dependents, "Ready"]


def test_no_reason_is_listed_that_nothing_gives() -> None:
    folder = Path(broker.__file__).parent
    source = "\n".join(path.read_text() for path in folder.glob("*.py"))
    for word in (*Reason, *ConditionType):
        assert f"{type(word).__name__}.{word.name}" in source, word
