"""A controller in this process, on a Kafka, with an instance of its own."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace

import httpx

from headrace.base import config
from headrace.base.errors import HeadraceError
from headrace.kafka.settings import KafkaSettings
from headrace.standalone.controller import Controller, ControllerConfig
from headrace.standalone.home import home_rules, home_settings
from tests.support.waiting import eventually


def new_instance() -> str:
    """A name that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"


class RunningController:
    """Serves from construction to `stop`. `failure` is what its `run` raised."""

    def __init__(self, kafka: KafkaSettings, instance: str | None = None) -> None:
        self.instance = instance or new_instance()
        settings = replace(config.Settings(), instance=self.instance)
        home = home_settings(settings, kafka.bootstrap_servers)
        self.controller = Controller(ControllerConfig(kafka, home, home_rules(), port=0, ops_port=0))
        self.failure: HeadraceError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.url = self.controller.api.url
        eventually(self._serves, 60, "the controller serves")

    def http(self) -> httpx.Client:
        """A client for its API."""
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False, verify=False)

    def stop(self) -> None:
        """End it and wait for that."""
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def join(self, seconds: float) -> bool:
        """Whether it ended by itself within `seconds`."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.controller.run(self._stop)
        except HeadraceError as error:
            self.failure = error

    def _serves(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False, verify=False).status_code == 200
        except httpx.TransportError:
            return False
