"""The Ready of one object as a condition of another."""

from __future__ import annotations

from typing import Any

from headrace.control.conditions import TRUE, Verdict, condition_in, false, unknown
from headrace.core.reasons import Reason


def mirrored(status: dict[str, Any], reason: Reason, name: str) -> Verdict:
    """True if it is Ready; else its status, under `reason`, with its own reason and message in the text."""
    ready = condition_in(status, "Ready")
    if ready.get("status") == "True":
        return TRUE
    detail = ": ".join(text for text in (ready.get("reason"), ready.get("message")) if text)
    text = f"{name} is not ready{f' ({detail})' if detail else ''}"
    return false(reason, text) if ready.get("status") == "False" else unknown(reason, text)
