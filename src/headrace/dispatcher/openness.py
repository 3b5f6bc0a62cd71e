"""Which egresses of the contract can be served. The workers decide by the same rules; the driver needs to know which topics to read."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.base.errors import HeadraceError
from headrace.core.contract import Egress, Resource
from headrace.dispatcher.worker.subscription import subscription_of


class Openness:
    """Asks once for each egress as it is; an unchanged one is not looked at again."""

    def __init__(self, tokens: bool = False) -> None:
        """`tokens`: whether tokens can be had."""
        self._tokens = tokens
        self._known: dict[str, tuple[Resource, Egress, str]] = {}

    def reason(self, resource: Resource, egress: Egress, trust_bundles: Sequence[str] = ()) -> str:
        """Why it can't be served; empty when it can."""
        known = self._known.get(egress.uid)
        if known is not None and known[0] is resource and known[1] is egress:
            return known[2]
        try:
            subscription_of(resource, egress, trust_bundles, tokens=self._tokens)
            reason = ""
        except HeadraceError as error:
            reason = str(error)
        self._known[egress.uid] = resource, egress, reason
        return reason
