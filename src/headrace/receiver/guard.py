"""What stands between a caller and an ingress that asks for identity; `identity` builds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from headrace.core.events.model import Event
from headrace.receiver.answers import Answer

Claims = Mapping[str, Any]


class Guard(Protocol):
    """What an ingress with an `audience` asks of a request before it takes its event."""

    def known(self, authorization: str | None) -> Answer | Claims | None:
        """The claims of a token that has been verified before, or the refusal of one that can't be right; None: `verify` it."""
        ...

    def verify(self, authorization: str) -> Answer | Claims:
        """The claims of a token, or the refusal. May wait for the issuer."""
        ...

    def permit(self, claims: Claims, events: Iterable[Event]) -> Answer | None:
        """The refusal, where the policies do not let this caller send these events."""
        ...


class Gatekeeper(Protocol):
    """Makes guards; all of them share what is known of the issuer."""

    def guard(self, audience: str, policies: Sequence[Mapping[str, Any]]) -> Guard:
        """The guard of an ingress. Raises `HeadraceError` for a policy that is not understood."""
        ...
