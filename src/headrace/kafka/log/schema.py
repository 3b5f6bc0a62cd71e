"""Definitions of Kafka's generated messages, in a notation of a line per field.

    message OffsetCommitValue key=1 versions=0-4 flexible=4+
      offset int64
      leaderEpoch int32 3+
      topicId uuid 4+ @0
      members []Member
        memberId string?
      struct Member

A field is: name, type (`?` nullable, `[]` array, a structure's fields follow indented or under `struct`), versions that
have it (none given: all), `@` its tag, `=` the default of a tagged field. The facts are those of Kafka's own message
definitions, and are held against them by a test. Source: Kafka, `clients/src/main/resources/common/message/README.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_FIELD = re.compile(
    r"(?P<name>\w+) (?P<array>\[\])?(?P<type>\w+)(?P<null>\?)?"
    r"(?: (?P<versions>\d[\d+-]*))?(?: @(?P<tag>\d+))?(?: = (?P<default>.+))?"
)
_ZERO: dict[str, Any] = {"string": "", "bytes": b"", "bool": False, "uuid": "A" * 22, "float64": 0.0}


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read `3`, `1-4`, `2+` or `none`."""
        if text == "none":
            return cls(1, 0)
        low, _, high = text.partition("-")
        if text.endswith("+"):
            return cls(int(text[:-1]), 2**15)
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field. `kind` is a primitive's name, or that of a structure whose fields are `fields`."""

    name: str
    kind: str
    array: bool
    nullable: bool
    versions: Versions
    tag: int | None
    default: Any
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One message type; `key` is its number in the family that it belongs to, -1 where it has none."""

    name: str
    key: int
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


@cache
def family(name: str) -> dict[str, Message]:
    """The messages of `schemas/NAME.txt` by their names: `group`, `transaction`, `share`, `metadata`, `control`, `consumer`, `producer`."""
    text = (files("headrace.kafka.log") / "schemas" / f"{name}.txt").read_text(encoding="utf-8")
    return {message.name: message for message in parse(text)}


@cache
def by_key(name: str, suffix: str) -> dict[int, Message]:
    """The messages of family `name` whose names end with `suffix`, by their numbers."""
    return {message.key: message for message in family(name).values() if message.name.endswith(suffix)}


def parse(text: str) -> Iterator[Message]:
    """The messages of a text in the notation above. Raises `ValueError` for a line that is none of its."""
    for block in text.strip().split("\n\n"):
        head, *body = block.split("\n")
        word, name, *pairs = head.split()
        if word != "message":
            raise ValueError(f"not a message: {head}")
        facts = dict(pair.split("=") for pair in pairs)
        lines = [((len(line) - len(line.lstrip())) // 2, line.strip()) for line in body]
        structs = {line.split()[1]: _children(lines, at) for at, (_, line) in enumerate(lines) if line.startswith("struct ")}
        top = [at for at, (depth, line) in enumerate(lines) if depth == 1 and not line.startswith("struct ")]
        yield Message(
            name,
            int(facts.get("key", -1)),
            Versions.parse(facts["versions"]),
            Versions.parse(facts["flexible"]),
            tuple(_field(lines, at, structs) for at in top),
        )


def _children(lines: list[tuple[int, str]], parent: int) -> list[int]:
    """The numbers of the lines one level below line `parent`."""
    depth = lines[parent][0]
    found = []
    for at in range(parent + 1, len(lines)):
        if lines[at][0] <= depth:
            break
        if lines[at][0] == depth + 1:
            found.append(at)
    return found


def _field(lines: list[tuple[int, str]], at: int, structs: dict[str, list[int]]) -> Field:
    match = _FIELD.fullmatch(lines[at][1])
    if not match:
        raise ValueError(f"not a field: {lines[at][1]}")
    kind, array = match["type"], bool(match["array"])
    inner = tuple(_field(lines, child, structs) for child in _children(lines, at) or structs.get(kind, []))
    zero = [] if array else {field.name: field.default for field in inner} if inner else _ZERO.get(kind, 0)
    return Field(
        name=match["name"],
        kind=kind,
        array=array,
        nullable=bool(match["null"]),
        versions=Versions.parse(match["versions"] or "0+"),
        tag=int(match["tag"]) if match["tag"] else None,
        default=json.loads(match["default"]) if match["default"] else zero,
        fields=inner,
    )
