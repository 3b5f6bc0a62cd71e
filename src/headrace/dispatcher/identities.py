"""Identities of the Kafkas in the contract: asked for anew from time to time, since a Secret may change under its name."""

from __future__ import annotations

import threading

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.contract import Reference
from headrace.dispatcher.config import Secrets
from headrace.kafka.settings import Auth

log = get_logger(__name__)

_FRESH_SECONDS = 30.0
_AGAIN_SECONDS = 2.0


class Identities:
    """Callable, as `Secrets`. While a Secret can't be had, its last known content stays in force: what runs goes on."""

    def __init__(self, secrets: Secrets, clock: Clock) -> None:
        self._secrets = secrets
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, str], tuple[Auth, str, float]] = {}

    def __call__(self, reference: Reference) -> Auth:
        """Raises what `secrets` raises when nothing is known."""
        key = (reference.namespace, reference.name, reference.uuid)
        with self._lock:
            now = self._clock.monotonic()
            auth, version, until = self._known.get(key, (None, "", 0.0))
            if auth is not None and version == reference.version and now < until:
                return auth
            try:
                auth, until = self._secrets(reference), now + _FRESH_SECONDS
            except HeadraceError as error:
                if auth is None:
                    raise
                log.warning(
                    "A Secret can't be had: what is known of it stays in force", secret=reference.name, error=str(error)
                )
                until = now + _AGAIN_SECONDS
            self._known[key] = auth, reference.version, until
            return auth
