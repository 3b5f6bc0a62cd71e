"""Only what differs is written to the contract topic."""

from __future__ import annotations

import json

from headrace.control.model import ContractRecord, Plan
from headrace.core.contract import Egress, Ingress, Resource
from headrace.core.contractlog import CONTRACT_KEY
from headrace.home.tables import ContractTable, Written
from headrace.standalone.contractwriter import changes_to

BROKER = Resource(uid="b", topics=("t",), bootstrap_servers="k:1", ingress=Ingress(path="/ns/b"))
TRIGGER = Resource(uid="t", topics=("t",), bootstrap_servers="k:1", egresses=(Egress(uid="t", destination="http://s"),))


def written(*resources: Resource, generation: int = 4, bundles: tuple[str, ...] = ()) -> Written:
    records = {resource.uid: ContractRecord(resource, index) for index, resource in enumerate(resources)}
    return Written(records, {}, {}, generation, bundles, len(records))


def test_nothing_is_written_when_nothing_differs() -> None:
    assert changes_to(Plan(contract={"b": BROKER, "t": TRIGGER}), written(BROKER, TRIGGER)) == {}


def test_new_changed_and_dropped_records_are_written_and_the_generation_grows() -> None:
    changed = Resource(uid="b", topics=("t",), bootstrap_servers="k:2", ingress=Ingress(path="/ns/b"))
    changes = changes_to(Plan(contract={"b": changed, "n": TRIGGER}), written(BROKER, TRIGGER))
    assert set(changes) == {"b", "n", "t", CONTRACT_KEY}
    assert changes["t"] is None
    assert json.loads(changes["b"] or b"")["bootstrapServers"] == "k:2"
    assert json.loads(changes[CONTRACT_KEY] or b"")["generation"] == "5"
    assert list(changes)[-1] == CONTRACT_KEY


def test_values_that_differ_only_in_form_are_no_change() -> None:
    as_list = Resource(uid="t", topics=("t",), egresses=(Egress(uid="t", dialected_filter=({"exact": {"a": "b"}},)),))
    read_back = Resource(
        uid="t", topics=("t",), egresses=(Egress(uid="t", dialected_filter=({"exact": {"a": "b"}},), filter={}),)
    )
    assert changes_to(Plan(contract={"t": as_list}), written(read_back)) == {}


def test_trust_bundles_alone_are_a_change() -> None:
    changes = changes_to(Plan(contract={"b": BROKER}, trust_bundles=("PEM",)), written(BROKER))
    assert set(changes) == {CONTRACT_KEY}
    assert json.loads(changes[CONTRACT_KEY] or b"")["trustBundles"] == ["PEM"]
    assert changes_to(Plan(contract={"b": BROKER}, trust_bundles=("PEM",)), written(BROKER, bundles=("PEM",))) == {}


def test_what_is_written_reads_back_as_no_change() -> None:
    table = ContractTable(lambda: None)
    plan = Plan(contract={"b": BROKER, "t": TRIGGER}, trust_bundles=("PEM",))
    for offset, (key, value) in enumerate(changes_to(plan, table.written()).items()):
        table.apply(key, value, offset)
    assert changes_to(plan, table.written()) == {}
    for offset, (key, value) in enumerate(changes_to(Plan(), table.written()).items(), 10):
        table.apply(key, value, offset)
    assert table.written().records == {}
    assert set(table.written().dropped) == {"b", "t"}
