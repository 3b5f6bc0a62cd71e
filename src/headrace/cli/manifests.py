"""Manifests: YAML or JSON documents from files, folders and standard input, each with where it came from."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.base.errors import UsageError

Json = dict[str, Any]
_SUFFIXES = {".yaml", ".yml", ".json"}


@dataclass(frozen=True, slots=True)
class Document:
    """One object. `origin` names file and place, for messages."""

    origin: str
    body: Json

    @property
    def subject(self) -> str:
        """`broker/orders (file.yaml, line 3)`, as far as it can be told."""
        metadata = self.body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        words = "/".join(str(word) for word in (str(self.body.get("kind") or "object").lower(), name) if word)
        return f"{words} ({self.origin})"


def read_all(sources: Sequence[str]) -> list[Document]:
    """Every document of the sources, in order (`-`: standard input). Raises `UsageError` naming file and line."""
    found = [document for source in sources for document in _source(source)]
    if not found:
        raise UsageError("no objects in it", subject=", ".join(sources))
    return found


def _source(source: str) -> Iterator[Document]:
    if source == "-":
        yield from _documents(sys.stdin.read(), "standard input")
        return
    path = Path(source)
    try:
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES) if path.is_dir() else [path]
        if not files:
            raise UsageError("holds no .yaml, .yml or .json file", subject=source)
        for file in files:
            yield from _documents(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", subject=str(error.filename or source)) from None
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8 text", subject=source) from None


def _documents(text: str, name: str) -> Iterator[Document]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            line = node.start_mark.line + 1
            yield from _expanded(loader.construct_document(node), f"{name}, line {line}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        raise UsageError(f"not YAML: {error.problem or error.context}", subject=where) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"not YAML: {error}", subject=name) from None
    finally:
        loader.dispose()


def _expanded(body: Any, origin: str) -> Iterator[Document]:
    if body is None:
        return
    if not isinstance(body, dict):
        raise UsageError("expected an object with apiVersion, kind and metadata", subject=origin)
    if body.get("kind") == "List" and isinstance(body.get("items"), list):
        for index, item in enumerate(body["items"]):
            yield from _expanded(item, f"{origin}, item {index + 1}")
        return
    yield Document(origin, _without_clear_text(body))


def _without_clear_text(body: Json) -> Json:
    """A Secret with its `stringData` written as `data`, so that a key that is taken out of a manifest is taken out of the object."""
    text = body.get("stringData")
    if body.get("kind") != "Secret" or not isinstance(text, dict) or not all(isinstance(value, str) for value in text.values()):
        return body
    data = body.get("data") or {}
    if not isinstance(data, dict):
        return body
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
    return {key: value for key, value in body.items() if key != "stringData"} | {"data": data | encoded}


class _Loader(yaml.SafeLoader):
    """YAML as manifests mean it: keys are not repeated, and what looks like a date stays text."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key_node.value} is there twice", key_node.start_mark
                    )
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
