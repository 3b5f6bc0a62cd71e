"""The contract's JSON form: what the peer writes is read, what we write is canonical, nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import Terminal
from headrace.core.contract import (
    BackoffPolicy,
    ContentMode,
    Contract,
    DeliveryOrder,
    Egress,
    EgressConfig,
    Ingress,
    KeyType,
    Reference,
    Resource,
    dump,
    parse_contract,
    parse_resource,
    to_json,
    unknown_fields,
)

PEER = {
    "generation": "18446744073709551613",
    "resources": [
        {
            "uid": "b-uid",
            "topics": ["knative-broker-ns-default"],
            "bootstrapServers": "k:9092",
            "ingress": {"path": "/ns/default", "contentMode": "STRUCTURED"},
            "reference": {"uuid": "b-uid", "namespace": "ns", "name": "default", "kind": "Broker"},
            "absentAuth": {},
        },
        {
            "uid": "c-uid",
            "topics": ["knative-broker-ns-default"],
            "bootstrapServers": "k:9092",
            "egresses": [
                {
                    "consumerGroup": "knative-trigger-ns-t1",
                    "destination": "http://sub.ns.svc.cluster.local",
                    "destinationCACerts": "PEM",
                    "replyToOriginalTopic": {},
                    "uid": "c-uid",
                    "deliveryOrder": "ORDERED",
                    "keyType": "Integer",
                    "vReplicas": 1,
                    "egressConfig": {"deadLetter": "http://dls", "retry": 5, "backoffPolicy": "Linear", "backoffDelay": "200"},
                    "dialectedFilter": [{"prefix": {"attributes": {"type": "com."}}}],
                }
            ],
            "authSecret": {"name": "secret", "namespace": "ns", "version": "12"},
        },
    ],
}


def test_a_contract_of_the_peer_is_read_field_by_field() -> None:
    contract = parse_contract(json.dumps(PEER))
    ingress, egress = contract.resources[0], contract.resources[1].egresses[0]
    assert contract.generation == 2**64 - 3
    assert ingress.ingress == Ingress(path="/ns/default", content_mode=ContentMode.STRUCTURED)
    assert ingress.absent_auth
    assert egress.reply_to_original_topic
    assert not egress.discard_reply
    assert egress.destination_ca_certs == "PEM"
    assert egress.order is DeliveryOrder.ORDERED
    assert egress.key_type is KeyType.INTEGER
    assert egress.egress_config == EgressConfig(
        dead_letter="http://dls", retry=5, backoff_policy=BackoffPolicy.LINEAR, backoff_delay=200
    )
    assert contract.resources[1].auth_secret == Reference(name="secret", namespace="ns", version="12")


def test_what_was_read_is_written_back_the_same() -> None:
    assert to_json(parse_contract(json.dumps(PEER))) == PEER


def test_unknown_fields_are_kept_and_named_by_path() -> None:
    raw = {"resources": [{"uid": "u", "new": 1, "egresses": [{"uid": "e", "egressConfig": {"later": {"a": []}}}]}], "x": "y"}
    contract = parse_contract(json.dumps(raw))
    assert to_json(contract) == raw
    assert sorted(unknown_fields(contract)) == ["resources[0].egresses[0].egressConfig.later", "resources[0].new", "x"]


def test_enum_numbers_are_read_as_protojson_allows() -> None:
    egress = parse_resource('{"egresses": [{"deliveryOrder": 1, "keyType": 3}]}').egresses[0]
    assert (egress.order, egress.key_type) == (DeliveryOrder.ORDERED, KeyType.BYTE_ARRAY)


def test_our_order_mode_wins_over_the_field_of_the_peer() -> None:
    assert Egress(delivery_order=DeliveryOrder.UNORDERED, headrace={"order": "KEY"}).order is DeliveryOrder.KEY


def test_null_is_the_same_as_absent() -> None:
    assert parse_resource('{"uid": "u", "ingress": null, "topics": null}') == Resource(uid="u")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_file_is_an_empty_contract(text: str) -> None:
    assert parse_contract(text) == Contract()


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ({"resources": {}}, "contract.resources"),
        ({"resources": ["x"]}, "contract.resources[0]"),
        ({"resources": [{"uid": 7}]}, "contract.resources[0].uid"),
        ({"resources": [{"egresses": [{"deliveryOrder": "SIDEWAYS"}]}]}, "contract.resources[0].egresses[0].deliveryOrder"),
        ({"resources": [{"egresses": [{"deliveryOrder": 9}]}]}, "contract.resources[0].egresses[0].deliveryOrder"),
        ({"resources": [{"egressConfig": {"retry": -1}}]}, "contract.resources[0].egressConfig.retry"),
        ({"resources": [{"egressConfig": {"retry": 1.5}}]}, "contract.resources[0].egressConfig.retry"),
        ({"resources": [{"egressConfig": {"retry": True}}]}, "contract.resources[0].egressConfig.retry"),
        ({"resources": [{"egressConfig": {"timeout": "soon"}}]}, "contract.resources[0].egressConfig.timeout"),
        ({"generation": []}, "contract.generation"),
        ([], "contract"),
    ],
)
def test_a_wrong_type_is_refused_with_its_path(raw: Any, place: str) -> None:
    with pytest.raises(Terminal) as caught:
        parse_contract(json.dumps(raw))
    assert caught.value.subject == place


def test_the_binary_encoding_is_refused_with_what_to_do() -> None:
    with pytest.raises(Terminal, match="set the controller's contract format to json"):
        parse_contract(b"\x08\x07\x12\x05")


texts = st.text(max_size=8)
egresses = st.builds(
    Egress,
    uid=texts,
    destination=texts,
    reply_url=texts,
    discard_reply=st.booleans(),
    delivery_order=st.sampled_from([DeliveryOrder.UNORDERED, DeliveryOrder.ORDERED]),
    v_replicas=st.integers(0, 2**31 - 1),
    egress_config=st.builds(EgressConfig, retry=st.integers(0, 99), timeout=st.integers(0, 2**63)),
    dialected_filter=st.lists(st.fixed_dictionaries({"exact": st.dictionaries(texts, texts)}), max_size=2).map(tuple),
)
resources = st.builds(
    Resource,
    uid=texts,
    topics=st.lists(texts, max_size=2).map(tuple),
    ingress=st.none() | st.builds(Ingress, path=texts, content_mode=st.sampled_from(list(ContentMode))),
    egresses=st.lists(egresses, max_size=2).map(tuple),
    absent_auth=st.booleans(),
)


@given(st.builds(Contract, generation=st.integers(0, 2**64 - 1), resources=st.lists(resources, max_size=3).map(tuple)))
def test_writing_and_reading_are_inverse(contract: Contract) -> None:
    assert parse_contract(dump(contract)) == contract


def test_options_of_its_own_that_are_empty_outlive_republishing() -> None:
    raw = {"uid": "u", "egressConfig": {"retry": 5}, "egresses": [{"uid": "a"}, {"uid": "b", "egressConfig": {}}]}
    again = parse_resource(dump(parse_resource(json.dumps(raw).encode())))
    assert [egress.egress_config.retry for egress in again.egresses] == [5, 0]
    assert dump(again) == dump(parse_resource(dump(again)))


def test_an_egress_without_options_of_its_own_has_those_of_its_resource() -> None:
    raw = {
        "egressConfig": {"deadLetter": "http://dls", "retry": 5},
        "egresses": [{"uid": "a"}, {"uid": "b", "egressConfig": {}}],
    }
    without, own = parse_resource(json.dumps(raw)).egresses
    assert without.egress_config == EgressConfig(dead_letter="http://dls", retry=5)
    assert own.egress_config == EgressConfig()
