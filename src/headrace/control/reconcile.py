"""The one function that both homes call."""

from __future__ import annotations

from headrace.control.model import Observed, Plan


def reconcile(observed: Observed) -> Plan:
    """What should be, given what is. Pure: no I/O, no clock; equal input gives an equal plan. Never raises for an object's fault."""
    raise NotImplementedError
