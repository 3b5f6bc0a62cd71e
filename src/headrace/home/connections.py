"""From a `KafkaRef` of the control plane to settings and an admin client, one per connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from headrace.base.errors import Terminal
from headrace.control.model import KafkaRef, ObjectKey
from headrace.kafka.admin import Admin
from headrace.kafka.authfile import secret_data
from headrace.kafka.settings import Auth, KafkaSettings


class Connections:
    """Clients are kept until the Secret that opened them changes. `secret_of` gives the v1 Secret object of a key, or None."""

    def __init__(self, home: KafkaSettings, secret_of: Callable[[ObjectKey], Mapping[str, Any] | None]) -> None:
        self._home = home
        self._secret_of = secret_of
        self._lock = threading.Lock()
        self._admins: dict[KafkaRef, tuple[KafkaSettings, Admin]] = {}

    def settings(self, ref: KafkaRef) -> KafkaSettings:
        """Raises `Terminal` when the Secret is missing or can't be used."""
        if ref.secret is not None:
            return KafkaSettings(ref.bootstrap, self._auth(ref.secret))
        if ref.bootstrap == self._home.bootstrap_servers:
            return self._home
        return KafkaSettings(ref.bootstrap, Auth.none())

    def admin(self, ref: KafkaRef) -> Admin:
        """The admin client of a connection. Errors as `settings`."""
        settings = self.settings(ref)
        with self._lock:
            known = self._admins.get(ref)
            if known is None or known[0] != settings:
                known = self._admins[ref] = (settings, Admin(settings))
            return known[1]

    def _auth(self, key: ObjectKey) -> Auth:
        secret = self._secret_of(key)
        if secret is None:
            raise Terminal("does not exist", subject=str(key), hint="Apply the Secret")
        return Auth.from_secret(secret_data(secret, str(key)), str(key))
