"""The contract as records: state follows the records, bad ones change nothing."""

from __future__ import annotations

import json

import pytest

from headrace.base.errors import Terminal
from headrace.core.contract import Contract, Egress, Ingress, Resource, dump
from headrace.core.contractlog import ContractState, What, drain_key, drain_record, records_of, run_record

INGRESS = Resource(uid="b", topics=("t",), bootstrap_servers="k:1", ingress=Ingress(path="/ns/b"))
EGRESS = Resource(uid="c", topics=("t",), bootstrap_servers="k:1", egresses=(Egress(uid="c", destination="http://s"),))


def test_the_records_of_a_contract_give_that_contract_back() -> None:
    contract = Contract(generation=7, resources=(INGRESS, EGRESS), trust_bundles=("PEM",))
    state = ContractState()
    for offset, (key, value) in enumerate(records_of(contract).items()):
        assert state.apply(key, value, offset).error is None
    assert list(state.resources.values()) == [INGRESS, EGRESS]
    assert (state.generation, state.trust_bundles, state.offset) == (7, ("PEM",), 2)
    assert state.ingresses() == [INGRESS]
    assert state.egresses() == {("k:1", "t"): [(EGRESS, EGRESS.egresses[0])]}


def test_a_tombstone_removes_a_resource_and_its_offset() -> None:
    state = ContractState()
    state.apply("b", dump(INGRESS), 3)
    assert state.applied == {"b": 3}
    assert state.apply("b", None, 4).removed
    assert (state.resources, state.applied, state.offset) == ({}, {}, 4)


@pytest.mark.parametrize("value", [b"no json", b"[]", b'{"topics": 7}', b"\xff"])
def test_an_unreadable_record_keeps_the_old_value_and_says_why(value: bytes) -> None:
    state = ContractState()
    state.apply("b", dump(INGRESS), 3)
    assert state.apply("b", value, 4).error is not None
    assert (state.resources["b"], state.applied["b"], state.offset) == (INGRESS, 3, 4)


@pytest.mark.parametrize(("key", "value"), [("@run/t", b"{}"), ("@contract", b'{"generation": "x"}'), ("@contract", b"1")])
def test_unreadable_special_records_are_reported(key: str, value: bytes) -> None:
    state = ContractState(generation=5)
    assert state.apply(key, value, 0).error is not None
    assert (state.generation, state.runs) == (5, {})


def test_runs_and_drains_come_and_go() -> None:
    state = ContractState()
    change = state.apply(*run_record("my/topic", "r1", 1), 0)
    assert (change.what, change.name, state.runs) == (What.RUN, "my/topic", {"my/topic": "r1"})
    state.apply(*run_record("my/topic", "r2", 2), 1)
    state.apply(*drain_record("r2", 3, "upgrade"), 2)
    assert (state.runs, state.drains) == ({"my/topic": "r2"}, {"r2"})
    state.apply(drain_key("r2"), None, 3)
    assert state.drains == set()


def test_records_need_uids_that_differ() -> None:
    with pytest.raises(Terminal, match="needs a uid"):
        records_of(Contract(resources=(Resource(),)))
    with pytest.raises(Terminal, match="two resources"):
        records_of(Contract(resources=(INGRESS, INGRESS)))
    with pytest.raises(Terminal, match="needs a uid"):
        records_of(Contract(resources=(Resource(uid="@contract"),)))


def test_special_records_are_json_objects() -> None:
    assert json.loads(run_record("t", "r", 5)[1]) == {"run": "r", "at": 5}
    assert json.loads(drain_record("r", 5, "stop")[1]) == {"at": 5, "reason": "stop"}


def test_what_concerns_a_topic_is_a_state_of_its_own() -> None:
    state = ContractState(generation=7, trust_bundles=("PEM",))
    other = Resource(uid="o", topics=("u",), bootstrap_servers="k:1")
    for offset, (key, value) in enumerate(
        [
            ("c", dump(EGRESS)),
            ("o", dump(other)),
            run_record("t", "r1", 1),
            run_record("u", "r2", 1),
            drain_record("r0", 1, "stop"),
        ]
    ):
        state.apply(key, value, offset)
    some = state.of_topic("t")
    assert (some.resources, some.applied, some.runs, some.drains) == ({"c": EGRESS}, {"c": 0}, {"t": "r1"}, {"r0"})
    assert (some.generation, some.trust_bundles, some.offset) == (7, ("PEM",), 4)
    some.apply("c", None, 5)
    assert "c" in state.resources
