"""Label and field selectors of list and watch, as the Kubernetes API reads them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headrace.standalone.failures import bad_request

Matcher = Callable[[Mapping[str, Any]], bool]
"""Whether an object is selected."""

_KEY = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(rf"(?P<key>{_KEY})\s*(?P<op>==|=|!=)\s*(?P<value>{_VALUE})")
_EXISTS = re.compile(rf"(?P<op>!?)\s*(?P<key>{_KEY})")
_FIELDS = ("metadata.name", "metadata.namespace")


def label_matcher(selector: str) -> Matcher:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k`: all must hold. Empty selects everything. Raises `Failure` 400 on anything else."""
    tests = [_label_test(part.strip()) for part in _split(selector)] if selector.strip() else []

    def matches(obj: Mapping[str, Any]) -> bool:
        labels = obj.get("metadata", {}).get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def field_matcher(selector: str) -> Matcher:
    """`metadata.name=x,metadata.namespace!=y`. Raises `Failure` 400 on other fields."""
    tests: list[tuple[str, bool, str]] = []
    for part in filter(None, (part.strip() for part in selector.split(","))):
        found = re.fullmatch(r"([\w.]+)\s*(==|=|!=)\s*(.*)", part)
        if found is None or found[1] not in _FIELDS:
            raise bad_request(f"field selector {part!r} is not supported: use {' or '.join(_FIELDS)} with = or !=")
        tests.append((found[1].rpartition(".")[2], found[2] != "!=", found[3]))
    return lambda obj: all((obj.get("metadata", {}).get(field, "") == value) is equal for field, equal, value in tests)


def _split(selector: str) -> list[str]:
    # At commas outside of parentheses.
    return re.split(r",(?![^()]*\))", selector)


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if not all(re.fullmatch(_VALUE, value) for value in values):
            raise bad_request(f"label selector {part!r}: not a label value")
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.fullmatch(part):
        key, value, equal = found["key"], found["value"], found["op"] != "!="
        return lambda labels: (labels.get(key) == value) is equal
    if found := _EXISTS.fullmatch(part):
        key, absent = found["key"], bool(found["op"])
        return lambda labels: (key not in labels) is absent
    raise bad_request(
        f"label selector {part!r} cannot be read: expected KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY or !KEY"
    )
