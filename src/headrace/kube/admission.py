"""Admission reviews: what the API server asks before it stores an object, answered with the rules of `core.resources`. Pure."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from headrace.core.resources.admission import admit, default
from headrace.core.resources.base import Json
from headrace.core.resources.invalid import Invalid
from headrace.core.resources.rules import Rules

DEFAULTING = "/defaulting"
VALIDATION = "/validation"
PATHS = (DEFAULTING, VALIDATION)


def answer(path: str, review: Json, rules: Rules) -> Json:
    """The `AdmissionReview` to send back. Raises `ValueError` when `review` is none."""
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise ValueError("not an AdmissionReview with a request")
    response = _defaulted(request, rules) if path == DEFAULTING else _validated(request, rules)
    return {
        "apiVersion": review.get("apiVersion", "admission.k8s.io/v1"),
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], **response},
    }


def _defaulted(request: Json, rules: Rules) -> Json:
    raw, old = request.get("object"), request.get("oldObject")
    if not isinstance(raw, dict) or _is_status(request):
        return {"allowed": True}
    try:
        new = default(raw, old, _asked_by(request, rules))
    except Invalid:
        # The validating webhook says what is wrong with it.
        return {"allowed": True}
    patch = [
        {"op": "add", "path": f"/{part}", "value": new[part]} for part in new if part != "status" and new[part] != raw.get(part)
    ]
    if not patch:
        return {"allowed": True}
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}


def _validated(request: Json, rules: Rules) -> Json:
    raw, old = request.get("object"), request.get("oldObject")
    if request.get("operation") == "DELETE" or not isinstance(raw, dict) or _is_status(request):
        return {"allowed": True}
    try:
        admit(raw, old if isinstance(old, dict) else None, _asked_by(request, rules))
    except Invalid as error:
        causes = [{"field": path, "message": fault.message} for fault in error.errors for path in fault.paths]
        status: dict[str, Any] = {
            "code": 400,
            "reason": "BadRequest",
            "message": f"validation failed: {'; '.join(str(fault) for fault in error.errors)}",
        }
        return {"allowed": False, "status": status | ({"details": {"causes": causes}} if causes else {})}
    return {"allowed": True}


def _asked_by(request: Json, rules: Rules) -> Rules:
    user = request.get("userInfo")
    name = user.get("username") if isinstance(user, dict) else None
    return replace(rules, user=name if isinstance(name, str) else "")


def _is_status(request: Json) -> bool:
    return bool(request.get("subResource"))
