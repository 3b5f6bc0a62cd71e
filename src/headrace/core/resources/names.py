"""Rules for names, labels and annotation keys, as Kubernetes has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.core.resources.base import ObjectMeta
from headrace.core.resources.invalid import FieldError, at, invalid_key, invalid_value, missing

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL, re.ASCII)
_DNS_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_NAME_RULE = "expected at most 253 lower-case letters, digits, '-' or '.', starting and ending with a letter or digit"
_NAMESPACE_RULE = "expected at most 63 lower-case letters, digits or '-', starting and ending with a letter or digit"
_KEY_RULE = "expected [prefix/]name: at most 63 letters, digits, '-', '_' or '.', the prefix a DNS name"
_VALUE_RULE = "expected at most 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit"
_MOST_ANNOTATIONS = 256 * 1024


def is_name(text: str) -> bool:
    """Whether `text` may be the name of an object (DNS subdomain of RFC 1123)."""
    return len(text) <= 253 and _DNS_NAME.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Whether `text` may be the name of a namespace (DNS label of RFC 1123)."""
    return len(text) <= 63 and _DNS_LABEL.fullmatch(text) is not None


def check_metadata(meta: ObjectMeta) -> Iterator[FieldError]:
    """Name, namespace, labels and the keys of annotations are legal."""
    if not meta.name and not meta.generate_name:
        yield missing("metadata.name")
    if meta.name and not is_name(meta.name):
        yield invalid_value(meta.name, "metadata.name", _NAME_RULE)
    if meta.generate_name and not is_name(f"{meta.generate_name}x"):
        yield invalid_value(meta.generate_name, "metadata.generateName", _NAME_RULE)
    if not meta.namespace:
        yield missing("metadata.namespace")
    elif not is_namespace(meta.namespace):
        yield invalid_value(meta.namespace, "metadata.namespace", _NAMESPACE_RULE)
    yield from _check_keys("labels", meta.labels)
    for key, value in (meta.labels or {}).items():
        if value and (len(value) > 63 or not _NAME_PART.fullmatch(value)):
            yield invalid_value(value, at("metadata", "labels", key), _VALUE_RULE)
    yield from _check_keys("annotations", meta.annotations)
    size = sum(len(key) + len(value) for key, value in (meta.annotations or {}).items())
    if size > _MOST_ANNOTATIONS:
        yield FieldError(f"Too long: {size} characters, at most {_MOST_ANNOTATIONS} are allowed", ("metadata.annotations",))
    for index, finalizer in enumerate(meta.finalizers or ()):
        if not _is_key(finalizer):
            yield invalid_value(finalizer, at("metadata", "finalizers", index), _KEY_RULE)


def _check_keys(field: str, values: Mapping[str, str] | None) -> Iterator[FieldError]:
    for key in values or {}:
        if not _is_key(key):
            yield invalid_key(key, at("metadata", field, key), _KEY_RULE)


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return len(name) <= 63 and _NAME_PART.fullmatch(name) is not None and (not slash or is_name(prefix))
