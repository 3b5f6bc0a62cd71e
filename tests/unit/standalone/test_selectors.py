"""Label and field selectors as the Kubernetes API reads them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.standalone.failures import Failure
from headrace.standalone.selectors import field_matcher, label_matcher


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "n", "namespace": "ns", "labels": labels}}


@pytest.mark.parametrize(
    ("selector", "matched"),
    [
        ("", True),
        ("app=shop", True),
        ("app==shop", True),
        ("app=shop,tier=front", True),
        ("app=shop,tier=back", False),
        ("app!=shop", False),
        ("owner!=me", True),
        ("app in (shop, bank)", True),
        ("app in (bank)", False),
        ("app notin (bank)", True),
        ("owner notin (me)", True),
        ("app", True),
        ("owner", False),
        ("!owner", True),
        ("!app", False),
        ("app in (shop,bank),tier", True),
        ("example.com/part-of=x", False),
    ],
)
def test_labels_are_selected_by_every_requirement(selector: str, matched: bool) -> None:
    assert label_matcher(selector)(labelled(app="shop", tier="front")) is matched


def test_an_object_without_labels_is_selected_by_absence_only() -> None:
    bare = {"metadata": {"name": "n", "labels": None}}
    assert label_matcher("!app")(bare)
    assert not label_matcher("app")(bare)


@pytest.mark.parametrize("selector", ["=", "a b", "a=b c", "app in shop", "in (a)", ",", "a in (b c)", "a>1"])
def test_a_selector_that_cannot_be_read_is_a_bad_request(selector: str) -> None:
    with pytest.raises(Failure) as refused:
        label_matcher(selector)
    assert refused.value.code == 400


def test_fields_name_and_namespace_are_selected() -> None:
    assert field_matcher("metadata.name=n,metadata.namespace!=other")(labelled())
    assert not field_matcher("metadata.name!=n")(labelled())


def test_other_fields_are_refused() -> None:
    with pytest.raises(Failure, match=r"spec\.broker"):
        field_matcher("spec.broker=b")
