"""Our definitions of generated messages are Kafka's own, as its jars have them."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.jars import kafka_classpath
from headrace.kafka.log.schema import Field, Message, Versions, family

JARS = {
    "group": ("kafka-group-coordinator", "common/message/"),
    "transaction": ("kafka-transaction-coordinator", "common/message/"),
    "share": ("kafka-share-coordinator", "common/message/"),
    "metadata": ("kafka-metadata", "common/metadata/"),
}
SINGLE = {
    "control": "kafka-clients",
    "consumer": "kafka-clients",
    "producer": "kafka-storage",
}
WIRE = ("coordinator-key", "coordinator-value", "metadata")


def definitions(jar: str, prefix: str = "") -> dict[str, dict[str, Any]]:
    """The message definitions in a jar, by name."""
    path = next(path for path in kafka_classpath() if re.fullmatch(rf".*_{jar}-\d[\d.]*\.jar", path.name))
    found = {}
    with zipfile.ZipFile(Path(path)) as archive:
        for name in archive.namelist():
            if name.endswith(".json") and name.startswith(prefix):
                text = re.sub(r"^\s*//.*$|(?<=[\s,])//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


def ours(fields: tuple[Field, ...]) -> list[Any]:
    return [
        (field.name, field.kind, field.array, field.nullable, field.versions, field.tag, field.default, ours(field.fields))
        for field in fields
    ]


def theirs(fields: list[dict[str, Any]], structs: dict[str, list[dict[str, Any]]], outer: Versions) -> list[Any]:
    """The same facts; fields that exist in all versions of their message are not told apart from those of `0+`."""
    found = []
    for field in fields:
        kind = field["type"].removeprefix("[]")
        array = field["type"].startswith("[]")
        versions = Versions.parse(field.get("versions") or field["taggedVersions"])
        nullable = field.get("nullableVersions", "none") != "none"
        inner = theirs(field.get("fields") or structs.get(kind, []), structs, outer)
        found.append(
            (name_of(field), kind, array, nullable, within(versions, outer), field.get("tag"), default(field, inner), inner)
        )
    return found


def name_of(field: dict[str, Any]) -> str:
    return str(field["name"][0].lower() + field["name"][1:])


def within(versions: Versions, outer: Versions) -> Versions:
    return Versions(0, 2**15) if versions.low <= outer.low and versions.high >= outer.high else versions


def default(field: dict[str, Any], inner: list[Any]) -> Any:
    """Only tagged fields' defaults matter to a reader; `null` without quotes means none given."""
    given, kind = field.get("default"), field["type"]
    if "tag" in field and given is not None:
        return json.loads(given) if isinstance(given, str) else given
    zeros = {"string": "", "bytes": b"", "bool": False, "uuid": "A" * 22, "float64": 0.0}
    return [] if kind.startswith("[]") else {entry[0]: entry[6] for entry in inner} if inner else zeros.get(kind, 0)


def assert_same(message: Message, definition: dict[str, Any]) -> None:
    versions = Versions.parse(definition["validVersions"])
    assert (message.key, message.versions) == (definition.get("apiKey", -1), versions)
    assert message.flexible == Versions.parse(definition["flexibleVersions"])
    structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    assert ours(message.fields) == theirs(definition["fields"], structs, versions)


@pytest.mark.parametrize("name", JARS)
def test_every_record_of_an_internal_topic_is_defined_as_kafka_defines_it(name: str) -> None:
    found = {key: value for key, value in definitions(*JARS[name]).items() if value["type"] in WIRE}
    assert sorted(family(name)) == sorted(found)
    for message in family(name).values():
        assert_same(message, found[message.name])


@pytest.mark.parametrize("name", SINGLE)
def test_every_other_message_is_defined_as_kafka_defines_it(name: str) -> None:
    found = definitions(SINGLE[name])
    for message in family(name).values():
        assert_same(message, found[message.name])
