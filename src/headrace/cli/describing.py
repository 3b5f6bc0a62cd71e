"""`describe`: one object for people: what was asked for, how it stands, how its events flow."""

from __future__ import annotations

from typing import Any

import yaml

from headrace.cli.output import console, print_table

Json = dict[str, Any]
_LANE_COLUMNS = (
    "Partition",
    "State",
    "Position",
    "Lag",
    "In flight",
    "Retrying",
    "Delivered",
    "Failed",
    "p50 ms",
    "p99 ms",
    "Last error",
)
_HIDDEN = "cli.headrace.dev/applied-fields"


def describe_object(obj: Json, figures: Json) -> None:
    """Print it. `figures`: what the data plane says (`/figures`)."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    _facts(
        {
            "Name": f"{obj['kind'].lower()}/{metadata['name']}",
            "Namespace": metadata["namespace"],
            "API version": obj["apiVersion"],
            "UID": metadata["uid"],
            "Created": metadata["creationTimestamp"],
            "Being deleted since": metadata.get("deletionTimestamp"),
            "Waits for": ", ".join(metadata.get("finalizers", [])) if metadata.get("deletionTimestamp") else None,
            "Labels": _pairs(metadata.get("labels")),
            "Annotations": _pairs({k: v for k, v in (metadata.get("annotations") or {}).items() if k != _HIDDEN}),
            "Address": (status.get("address") or {}).get("url"),
            "Subscriber": status.get("subscriberUri") or (status.get("physicalSubscription") or {}).get("subscriberUri"),
            "Dead letters": status.get("deadLetterSinkUri"),
        }
    )
    _block("Spec", obj.get("spec"))
    _block("Data", {key: _shown(obj, value) for key, value in (obj.get("data") or {}).items()} or None)
    _block("Facts", status.get("annotations"))
    if status.get("conditions"):
        _title("Conditions")
        rows = [
            (c["type"], c["status"], c.get("reason") or "", c.get("lastTransitionTime") or "", c.get("message") or "")
            for c in status["conditions"]
        ]
        print_table(("Type", "Status", "Reason", "Since", "Message"), rows)
    _flow(metadata["uid"], figures)


def _flow(uid: str, figures: Json) -> None:
    """The lanes of a Trigger or Subscription: one line per partition."""
    rows = []
    for worker in figures.get("workers", ()):
        lane = worker["lanes"].get(uid)
        if lane is not None and figures["at"] - worker["at"] < 10_000:
            rows.append(
                (
                    worker["index"],
                    lane["state"],
                    lane["position"],
                    lane["lag"],
                    lane["in_flight"],
                    lane["retrying"],
                    lane["delivered"],
                    lane["failed"],
                    lane["p50_ms"],
                    lane["p99_ms"],
                    lane["blocked"] or lane["last_error"],
                )
            )
    if rows:
        _title("Delivery")
        print_table(_LANE_COLUMNS, sorted(rows))


def _facts(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        if value:
            console().print(f"{name + ':':<21}{value}", markup=False)


def _block(title: str, value: Any) -> None:
    if value:
        _title(title)
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
        console().print("\n".join(f"  {line}" for line in text.splitlines()), markup=False)


def _title(text: str) -> None:
    console().print(f"{text}:", markup=False)


def _pairs(values: dict[str, str] | None) -> str:
    return ", ".join(f"{key}={value}" for key, value in (values or {}).items())


def _shown(obj: Json, value: str) -> str:
    return f"({len(value)} characters of base64)" if obj["kind"] == "Secret" else value
