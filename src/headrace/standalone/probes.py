"""What a running part still lacks, asked from outside."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable

from headrace.base.errors import HeadraceError
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings

Missing = Callable[[], list[str]]
NO_ANSWER = "does not answer yet"
_SECONDS = 2.0


def by_operations(port: int, host: str = "127.0.0.1") -> Missing:
    """Asks `/readyz` of a part's operations endpoint."""

    def missing() -> list[str]:
        connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            body = response.read()
            if response.status == 200:
                return []
            return [str(reason) for reason in json.loads(body)["missing"]] or ["not ready"]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return [NO_ANSWER]
        finally:
            connection.close()

    return missing


def by_kafka(settings: KafkaSettings) -> Missing:
    """Asks a Kafka for its brokers."""
    admin: list[Admin] = []

    def missing() -> list[str]:
        if not admin:
            admin.append(Admin(settings, timeout=_SECONDS))
        try:
            return [] if admin[0].cluster_info().brokers else ["no broker yet"]
        except HeadraceError:
            return [NO_ANSWER]

    return missing
