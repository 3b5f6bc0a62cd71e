from __future__ import annotations

from typing import Any

import pytest

from headrace.core.resources.base import Model
from headrace.core.resources.printing import age, cell, find
from headrace.core.resources.registry import KAFKA_CHANNEL, KINDS, TRIGGER, Column, KindInfo, by_kind, by_plural, by_word, words
from headrace.core.resources.schema import full_schema, structural_schema


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        ("broker", ["Broker"]),
        ("Brokers", ["Broker"]),
        ("brokers.eventing.knative.dev", ["Broker"]),
        ("brokers.messaging.knative.dev", []),
        ("kc", ["KafkaChannel"]),
        ("sub", ["Subscription"]),
        ("ch", ["Channel"]),
        ("cm", ["ConfigMap"]),
        ("channel", ["Channel"]),
        ("all", ["Broker", "Trigger", "KafkaChannel", "Channel", "Subscription", "EventPolicy"]),
        ("messaging", ["KafkaChannel", "Channel", "Subscription"]),
        ("pod", []),
    ],
)
def test_a_word_means_these_kinds(word: str, kinds: list[str]) -> None:
    assert [info.kind for info in by_word(word)] == kinds


def test_every_word_is_found_and_means_one_kind() -> None:
    assert all(len(by_word(word)) == 1 for word in words())


@pytest.mark.parametrize("info", KINDS, ids=lambda info: info.kind)
def test_a_kind_is_found_by_its_names(info: KindInfo) -> None:
    assert info.storage in info.versions
    assert by_kind(info.group, info.kind) is info
    assert all(by_plural(info.group, version, info.plural) is info for version in info.versions)
    assert by_plural(info.group, "v9", info.plural) is None


def test_a_kafka_channel_has_two_versions_and_keeps_the_older() -> None:
    assert KAFKA_CHANNEL.versions == ("v1beta1", "v1")
    assert KAFKA_CHANNEL.stored_api_version == "messaging.knative.dev/v1beta1"
    assert KAFKA_CHANNEL.qualified == "kafkachannels.messaging.knative.dev"


@pytest.mark.parametrize("info", KINDS, ids=lambda info: info.kind)
def test_a_schema_is_structural_and_describes_every_field(info: KindInfo) -> None:
    def walk(node: dict[str, Any], path: str) -> None:
        assert node.get("type") in ("object", "array", "string", "integer", "boolean"), path
        assert not {"$ref", "anyOf", "allOf", "title", "const"} & node.keys(), path
        assert node.get("description") or path in ("", ".metadata") or path.endswith(("[]", "{}")), path
        for name, part in node.get("properties", {}).items():
            walk(part, f"{path}.{name}")
        if "items" in node:
            walk(node["items"], f"{path}[]")
        if isinstance(node.get("additionalProperties"), dict):
            walk(node["additionalProperties"], f"{path}{{}}")

    walk(full_schema(info.model), "")
    assert structural_schema(info.model)["properties"]["metadata"] == {"type": "object"}


def test_a_schema_says_what_the_fields_are() -> None:
    spec = structural_schema(KAFKA_CHANNEL.model)["properties"]["spec"]["properties"]
    assert spec["numPartitions"] == {
        "type": "integer",
        "description": "Partitions of its topic. Immutable.",
        "default": 1,
        "maximum": 2147483647,
    }
    delivery = spec["delivery"]["properties"]
    assert delivery["backoffPolicy"]["enum"] == ["linear", "exponential"]
    filters = structural_schema(TRIGGER.model)["properties"]["spec"]["properties"]["filters"]["items"]["properties"]
    assert filters["exact"]["additionalProperties"] == {"type": "string"}
    assert filters["not"]["x-kubernetes-preserve-unknown-fields"] is True


def test_every_field_of_every_model_is_documented() -> None:
    def models(kind: type[Model]) -> list[type[Model]]:
        return [kind, *(found for child in kind.__subclasses__() for found in models(child))]

    bare = [
        f"{kind.__name__}.{name}"
        for kind in models(Model)
        for name, field in kind.model_fields.items()
        if not field.description
    ]
    assert bare == []


READY = {
    "status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "False", "reason": "Because"}]}
}


@pytest.mark.parametrize(
    ("path", "raw", "value"),
    [
        (".a.b", {"a": {"b": 1}}, 1),
        (".a.b", {"a": "text"}, None),
        (".a.b", {}, None),
        ('.status.conditions[?(@.type=="Ready")].reason', READY, "Because"),
        ('.status.conditions[?(@.type=="Gone")].reason', READY, None),
        (r".a.x\.y/z", {"a": {"x.y/z": "v"}}, "v"),
    ],
)
def test_a_path_finds_its_value(path: str, raw: dict[str, Any], value: object) -> None:
    assert find(raw, path) == value


@pytest.mark.parametrize("info", KINDS, ids=lambda info: info.kind)
def test_every_column_of_a_kind_can_be_printed(info: KindInfo) -> None:
    raw = {
        "metadata": {
            "creationTimestamp": "1970-01-01T00:00:00Z",
            "annotations": {"eventing.knative.dev/broker.class": "Kafka"},
        },
        "spec": {"broker": "b"},
        "status": {**READY["status"], "address": {"url": "http://a/"}, "subscriberUri": "http://s/"},
        "type": "Opaque",
    }
    assert all(cell(raw, column, 60.0) for column in info.columns)
    assert [cell({}, column, 60.0) for column in info.columns] == [""] * len(info.columns)


def test_a_date_that_is_none_is_shown_as_it_is() -> None:
    assert cell({"a": "soon"}, Column("A", ".a", "date"), 0.0) == "soon"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (5, "5s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (700, "11m"),
        (7_200, "120m"),
        (11_100, "3h5m"),
        (10_800, "3h"),
        (36_000, "10h"),
        (273_600, "3d4h"),
        (259_200, "3d"),
        (3_628_800, "42d"),
        (63_936_000, "2y10d"),
        (63_072_000, "2y"),
    ],
)
def test_an_age_is_shown_as_kubectl_does(seconds: float, text: str) -> None:
    assert age(seconds) == text
