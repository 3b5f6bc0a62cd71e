"""Secrets of the cluster for processes of the data plane: whatever the contract names, asked for each time."""

from __future__ import annotations

from headrace.base.errors import Terminal
from headrace.core.contract import Reference
from headrace.kafka.authfile import secret_data
from headrace.kafka.settings import Auth
from headrace.kube.api import Api
from headrace.kube.places import SECRET


class KubeSecrets:
    """Callable: the identity in a Secret."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __call__(self, reference: Reference) -> Auth:
        """Raises `Terminal` when there is no such Secret or it can't be used, `Retriable` while the API does not answer."""
        subject = f"secret/{reference.namespace}/{reference.name}"
        found = self._api.find(SECRET.path(reference.namespace, reference.name))
        if found is None:
            raise Terminal("does not exist", subject=subject, hint="Apply the Secret")
        return Auth.from_secret(secret_data({"apiVersion": "v1", "kind": "Secret", **found}, subject), subject)
