"""Whatever is sent: it is refused in words or taken, and what was taken is taken again unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.resources.admission import admit
from headrace.core.resources.invalid import Invalid
from tests.unit.core_resources.manifests import CONTROLLER, HEADS

WORDS = """
    name namespace labels annotations finalizers spec data stringData binaryData type broker brokerRef subscriber reply channel ref
    uri CACerts audience kind apiVersion filter filters attributes exact prefix all any not cesql delivery retry timeout backoffDelay
    deadLetterSink numPartitions retentionDuration subscribers uid subscriberUri channelTemplate config to from sub selector x
    headrace.dev/max-rate headrace.dev/initial-offset knative.dev/dependency
"""
NAMES = st.sampled_from(WORDS.split())
TEXTS = ["", "a", "default", "http://s/", "PT1S", "v1", "ConfigMap", "Broker", "type = 'a'", "-----BEGIN CERTIFICATE-----"]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.sampled_from([*TEXTS, "[", "http://[", "YQ=="]),
    st.text(max_size=5),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=5)), max_leaves=12
)


@given(st.sampled_from(sorted(HEADS)), st.dictionaries(NAMES, JSON, max_size=4), st.dictionaries(NAMES, JSON, max_size=3))
@settings(max_examples=40, deadline=None)
def test_admission_answers_in_words_or_takes_the_object(kind: str, body: dict[str, Any], metadata: dict[str, Any]) -> None:
    raw = {**body, "apiVersion": HEADS[kind], "kind": kind, "metadata": {"name": "x", "namespace": "default", **metadata}}
    try:
        admitted = admit(raw, None, CONTROLLER)
    except Invalid as error:
        faults = [error.message, *(fault.message for fault in error.errors)]
    else:
        faults = ["none"]
        assert admit(admitted, admitted, CONTROLLER) == admitted
    assert all(faults)


@given(JSON)
@settings(max_examples=30, deadline=None)
def test_what_is_no_object_is_refused(raw: Any) -> None:
    with pytest.raises(Invalid):
        admit(raw, None, CONTROLLER)
