"""`apply`: what each manifest changes, checked by the controller first, then done.

The fields of the last apply are remembered in an annotation (their names, not their values), so that a field which is taken out of a
manifest is taken out of the object, and what defaults and controllers added stays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.manifests import Document
from headrace.cli.selection import Selected
from headrace.standalone.client import Client, Refused
from headrace.standalone.mergepatch import three_way

Json = dict[str, Any]
FIELDS = "cli.headrace.dev/applied-fields"


@dataclass(frozen=True, slots=True)
class Change:
    """One manifest against what is there. `live` None: the object is to be created."""

    document: Document
    selected: Selected
    body: Json
    live: Json | None

    @property
    def word(self) -> str:
        return self.selected.word


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done: `created`, `configured` or `unchanged`."""

    selected: Selected
    what: str

    @property
    def word(self) -> str:
        return self.selected.word


def plan(client: Client, documents: Sequence[Document], namespace: str | None) -> list[Change]:
    """One change per document. Raises `UsageError` for kinds that are not served and for the same object twice."""
    types = {(one.api_version, one.kind): one for one in client.types()}
    changes: list[Change] = []
    seen: dict[Selected, str] = {}
    for document in documents:
        kind = types.get((str(document.body.get("apiVersion")), str(document.body.get("kind"))))
        if kind is None:
            raise _unknown_kind(document)
        body = _placed(document, namespace)
        selected = Selected(kind, body["metadata"]["namespace"], body["metadata"]["name"])
        if selected in seen:
            raise UsageError(f"is there twice (first in {seen[selected]})", subject=document.subject)
        seen[selected] = document.origin
        changes.append(Change(document, selected, _marked(body), _live(client, selected)))
    return changes


def check(client: Client, changes: Sequence[Change]) -> list[tuple[str, HeadraceError]]:
    """What the controller would refuse: the subject and the reason of each."""
    faults: list[tuple[str, HeadraceError]] = []
    for change in changes:
        try:
            _send(client, change, dry_run=True)
        except Refused as error:
            faults.append((change.document.subject, error))
    return faults


def applied(client: Client, change: Change) -> Applied:
    """Do it."""
    result = _send(client, change, dry_run=False)
    if change.live is None:
        return Applied(change.selected, "created")
    same = result["metadata"]["resourceVersion"] == change.live["metadata"]["resourceVersion"]
    return Applied(change.selected, "unchanged" if same else "configured")


def _send(client: Client, change: Change, *, dry_run: bool) -> Json:
    kind, namespace, name = change.selected.kind, change.selected.namespace or "", change.selected.name
    if change.live is None:
        return client.create(kind, namespace, change.body, dry_run=dry_run)
    return client.patch(kind, namespace, name, three_way(_previous(change.live), change.body), dry_run=dry_run)


def _live(client: Client, selected: Selected) -> Json | None:
    try:
        return selected.fetch(client)
    except Refused as error:
        if error.reason == "NotFound":
            return None
        raise


def _placed(document: Document, namespace: str | None) -> Json:
    metadata = document.body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise UsageError("missing field(s): metadata.name", subject=document.subject)
    own = metadata.get("namespace")
    if own and namespace and own != namespace:
        raise UsageError(
            f"its namespace is {own}, not {namespace}", subject=document.subject, hint="Leave out -n, or correct the manifest"
        )
    return {**document.body, "metadata": {**metadata, "namespace": own or namespace or "default"}}


def _marked(body: Json) -> Json:
    """The manifest with the names of its fields in an annotation; status and server-set metadata are not applied."""
    clean = {key: value for key, value in body.items() if key != "status"}
    shape = json.dumps(
        _shape({key: value for key, value in clean.items() if key not in ("apiVersion", "kind")}), separators=(",", ":")
    )
    metadata = clean["metadata"]
    annotations = metadata.get("annotations")
    if annotations is not None and not isinstance(annotations, dict):
        return clean
    return {**clean, "metadata": {**metadata, "annotations": {**(annotations or {}), FIELDS: shape}}}


def _shape(value: Any) -> Any:
    return {key: _shape(item) for key, item in value.items()} if isinstance(value, dict) else 1


def _previous(live: Json) -> Json:
    text = live["metadata"].get("annotations", {}).get(FIELDS, "{}")
    try:
        shape = json.loads(text)
    except ValueError:
        return {}
    return shape if isinstance(shape, dict) else {}


def _unknown_kind(document: Document) -> UsageError:
    # Imported here: the models take long to load, and only this message needs them.
    from headrace.core.resources.invalid import Invalid
    from headrace.core.resources.registry import kind_of

    try:
        kind_of(document.body)
    except Invalid as error:
        return UsageError(error.message, subject=document.subject)
    return UsageError("this kind is not served by that controller", subject=document.subject)
