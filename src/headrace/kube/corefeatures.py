"""The features that Knative's ConfigMap `config-features` switches, looked up now and then.

Every operator needs them, whether it leads or not, since every one answers admission reviews.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.resources.features import Features, switched
from headrace.kube.api import Api
from headrace.kube.places import CONFIG_MAP

log = get_logger(__name__)
NAME = "config-features"
_LOOK_SECONDS = 5.0
_STOP_SECONDS = 10.0


class CoreFeatures:
    """`current` from `start` to `close`: what the ConfigMap of `namespace` says, and `own` where it says nothing or is not there.

    While the API server does not answer, the last answer holds.
    """

    def __init__(self, api: Api, namespace: str, own: Features, changed: Callable[[], None]) -> None:
        self.current = own
        self._api = api
        self._namespace = namespace
        self._own = own
        self._changed = changed
        self._told: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)

    def start(self) -> None:
        """Look once, then in a thread."""
        self.look()
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    def look(self) -> None:
        """Bring `current` up to date."""
        try:
            obj = self._api.find(CONFIG_MAP.path(self._namespace, NAME))
        except HeadraceError as error:
            log.warning("The features can't be read", configmap=f"{self._namespace}/{NAME}", error=error)
            return
        found, wrong = switched(self._own, (obj or {}).get("data") or {})
        if wrong != self._told:
            self._told = wrong
            for text in wrong:
                log.warning("A feature keeps its value", configmap=f"{self._namespace}/{NAME}", error=text)
        if found != self.current:
            self.current = found
            log.info("Features", features=found)
            self._changed()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self.look()
