"""Which objects a command is about: words of the command line against the types that the controller serves; and waiting for them."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.base.clock import Deadline
from headrace.base.errors import Retriable, Terminal, UsageError, WaitTimeout
from headrace.cli.manifests import Document
from headrace.standalone.client import Client, Refused, ResourceType

Json = dict[str, Any]
_AGAIN_SECONDS = 0.2
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


@dataclass(frozen=True, slots=True)
class Selected:
    """A type in a namespace (None: all), and a name unless all objects are meant."""

    kind: ResourceType
    namespace: str | None
    name: str = ""

    @property
    def word(self) -> str:
        """As commands print it: `trigger/orders`."""
        return f"{self.kind.singular}/{self.name}"

    def fetch(self, client: Client) -> Json:
        """The object."""
        return client.get(self.kind, self.namespace or "default", self.name)


def select(client: Client, words: Sequence[str], namespace: str | None) -> list[Selected]:
    """`TYPE[,TYPE] [NAME...]` or `TYPE/NAME...`. Raises `UsageError` for what is neither, naming the types there are."""
    types = client.types()
    if not words:
        raise UsageError("which type?", hint=f"The types are {_names(types)}")
    if "/" in words[0]:
        found = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not name:
                raise UsageError("expected TYPE/NAME", subject=repr(word))
            found += [Selected(one, namespace, name) for one in _types(types, kind)[:1]]
    else:
        kinds = [kind for word in words[0].split(",") for kind in _types(types, word)]
        found = [Selected(kind, namespace, name) for kind in kinds for name in words[1:] or [""]]
    if namespace is None and any(one.name for one in found):
        raise UsageError("a name needs a namespace", hint="Leave out -A, or leave out the name")
    return found


def selected_documents(client: Client, documents: Sequence[Document], namespace: str) -> list[Selected]:
    """The objects that manifests are about."""
    types = client.types()
    found = []
    for document in documents:
        body = document.body
        kind = next((one for one in types if (one.api_version, one.kind) == (body.get("apiVersion"), body.get("kind"))), None)
        metadata = body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if kind is None or not isinstance(metadata, dict) or not isinstance(name, str):
            raise UsageError("names no object that is served here", subject=document.subject)
        found.append(Selected(kind, str(metadata.get("namespace") or namespace), name))
    return found


def each(client: Client, chosen: Sequence[Selected], selector: str) -> list[Selected]:
    """The objects one by one: a type alone stands for all that are there."""
    found = []
    for one in chosen:
        if one.name:
            found.append(one)
            continue
        for obj in client.select(one.kind, one.namespace, selector)["items"]:
            found.append(replace(one, name=obj["metadata"]["name"], namespace=obj["metadata"]["namespace"]))
    return found


def duration(text: str, option: str = "--timeout") -> float:
    """Seconds of `30s`, `2m`, `1h30m` or `45`."""
    found = _DURATION.fullmatch(text.strip())
    if not text.strip() or found is None:
        raise UsageError("expected a duration such as 30s or 2m", subject=f"{option} {text!r}")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def wait_ready(client: Client, chosen: Sequence[Selected], seconds: float, condition: str = "Ready") -> None:
    """Wait until the condition is True, for the generation that is there now, on all of them.

    Raises `WaitTimeout` naming the first that is not, with its reason.
    """
    if not chosen:
        raise Terminal("nothing found to wait for")
    deadline = Deadline(seconds)
    for one in chosen:
        _wait_one(client, one, condition, deadline)


def wait_gone(client: Client, chosen: Sequence[Selected], seconds: float) -> None:
    """Wait until none of them is there. Raises `WaitTimeout`."""
    deadline = Deadline(seconds)
    for one in chosen:
        first = _try_fetch(client, one)
        if first is None:
            continue
        for obj in _versions(client, one, deadline):
            if obj is None or obj["metadata"]["uid"] != first["metadata"]["uid"]:
                break
        else:
            finalizers = ", ".join(first["metadata"].get("finalizers", [])) or "none"
            raise WaitTimeout(f"still there after {seconds:g} s (finalizers: {finalizers})", subject=one.word)


def state_of(obj: Json, condition: str) -> tuple[bool, str]:
    """Whether the condition holds for the generation that is there, and if not, why not."""
    status = obj.get("status") or {}
    found = next((c for c in status.get("conditions") or () if c.get("type") == condition), None)
    if status.get("observedGeneration") != obj["metadata"].get("generation") or found is None:
        return False, "not looked at yet"
    if found["status"] == "True":
        return True, ""
    words = [str(found.get(word)) for word in ("reason", "message") if found.get(word)]
    return False, f"{condition} is {found['status']}{': ' if words else ''}{', '.join(words)}"


def _wait_one(client: Client, one: Selected, condition: str, deadline: Deadline) -> None:
    why = state_of(one.fetch(client), condition)[1]
    for obj in _versions(client, one, deadline):
        if obj is None:
            raise Terminal("was deleted while waiting for it", subject=one.word)
        holds, why = state_of(obj, condition)
        if holds:
            return
    raise WaitTimeout(
        f"not {condition} in time: {why}", subject=one.word, hint=f"`headrace describe {one.word}` shows all of it"
    )


def _versions(client: Client, one: Selected, deadline: Deadline) -> Iterator[Json | None]:
    """The object as it is and each time it changes, None when it is not there; until the deadline, whatever becomes of the controller."""
    while True:
        try:
            obj = _try_fetch(client, one)
            yield obj
            if obj is not None:
                yield from _changes(client, one, obj["metadata"]["resourceVersion"], deadline)
        except Retriable:
            pass
        except Refused as error:
            if error.reason not in ("Expired", "ServiceUnavailable"):
                raise
        if deadline.expired:
            return
        time.sleep(min(_AGAIN_SECONDS, deadline.remaining()))


def _changes(client: Client, one: Selected, since: str, deadline: Deadline) -> Iterator[Json | None]:
    for change, obj in client.watch(one.kind, one.namespace, since, deadline=deadline):
        if obj["metadata"]["name"] == one.name:
            yield None if change == "DELETED" else obj


def _try_fetch(client: Client, one: Selected) -> Json | None:
    try:
        return one.fetch(client)
    except Refused as error:
        if error.reason == "NotFound":
            return None
        raise


def _types(types: Sequence[ResourceType], word: str) -> list[ResourceType]:
    """The types that a word means, in their preferred versions: a name, or a category such as `all`."""
    low = word.lower()
    preferred = {(one.group, one.kind): one for one in reversed(types)}
    found = [one for one in preferred.values() if low in one.names()] or [
        one for one in preferred.values() if low in one.categories
    ]
    if not found:
        close = difflib.get_close_matches(low, [name for one in types for name in one.names()], n=1)
        hint = f"Did you mean {close[0]}?" if close else f"The types are {_names(types)}"
        raise UsageError("no such type", subject=repr(word), hint=hint)
    return sorted(found, key=lambda one: (one.group, one.kind))


def _names(types: Sequence[ResourceType]) -> str:
    return ", ".join(sorted({one.singular for one in types}))
