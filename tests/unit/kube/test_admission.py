"""Admission reviews, as the API server asks them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from headrace.core.resources.rules import Rules
from headrace.kube.admission import DEFAULTING, VALIDATION, answer

RULES = Rules(controllers=frozenset({"system:serviceaccount:knative-eventing:headrace-controller"}))


def review(
    obj: dict[str, Any] | None, old: dict[str, Any] | None = None, user: str = "alice", **request: Any
) -> dict[str, Any]:
    operation = "UPDATE" if old else "CREATE"
    asked = {"uid": "1", "operation": operation, "object": obj, "oldObject": old, "userInfo": {"username": user}, **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def channel(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "KafkaChannel",
        "metadata": {"name": "c", "namespace": "n"},
        "spec": spec,
    }


def test_defaults_come_as_a_patch() -> None:
    response = answer(DEFAULTING, review(channel()), RULES)["response"]
    patch = {item["path"]: item["value"] for item in json.loads(base64.b64decode(response["patch"]))}
    assert response["allowed"] is True
    assert response["uid"] == "1"
    assert patch["/spec"]["numPartitions"] == 1
    assert patch["/metadata"]["annotations"] == {"messaging.knative.dev/subscribable": "v1"}


def test_a_complete_object_needs_no_patch() -> None:
    full = channel(numPartitions=1, replicationFactor=1, retentionDuration="PT1H")
    full["metadata"]["annotations"] = {"messaging.knative.dev/subscribable": "v1"}
    assert "patch" not in answer(DEFAULTING, review(full), RULES)["response"]


def test_a_refusal_names_every_field() -> None:
    response = answer(VALIDATION, review(channel(numPartitions=0, retentionDuration="soon")), RULES)["response"]
    assert response["allowed"] is False
    assert response["status"]["code"] == 400
    fields = {cause["field"] for cause in response["status"]["details"]["causes"]}
    assert fields == {"spec.numPartitions", "spec.retentionDuration"}


@pytest.mark.spec("CP-X6")
def test_only_the_controller_changes_subscribers() -> None:
    old = channel(numPartitions=1)
    new = channel(numPartitions=1, subscribers=[{"uid": "u", "subscriberUri": "http://x"}])
    refused = answer(VALIDATION, review(new, old), RULES)["response"]
    assert refused["allowed"] is False
    assert "Channel.Spec.Subscribers changed by user alice which was not the" in refused["status"]["message"]
    controller = next(iter(RULES.controllers))
    assert answer(VALIDATION, review(new, old, user=controller), RULES)["response"]["allowed"] is True


def test_statuses_and_deletions_are_let_through() -> None:
    bad = channel(numPartitions=0)
    assert answer(VALIDATION, review(bad, bad, subResource="status"), RULES)["response"]["allowed"] is True
    assert answer(VALIDATION, review(None, bad, operation="DELETE"), RULES)["response"]["allowed"] is True


def test_a_broker_of_another_class_is_somebody_elses() -> None:
    other = {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "metadata": {"name": "b", "namespace": "n", "annotations": {"eventing.knative.dev/broker.class": "Other"}},
        "spec": {},
    }
    assert answer(VALIDATION, review(other), RULES)["response"]["allowed"] is True


def test_what_is_no_review_is_an_error() -> None:
    with pytest.raises(ValueError, match="AdmissionReview"):
        answer(VALIDATION, {"request": None}, RULES)
