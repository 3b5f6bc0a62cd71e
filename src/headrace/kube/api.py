"""The Kubernetes API as JSON over HTTP: what the operator needs of the official client, which brings configuration, TLS and tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config

from headrace.base.errors import HeadraceError, Retriable, Terminal, UsageError

Json = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
FIELD_MANAGER = "headrace"
_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_CONNECTIONS = 32


class Refused(HeadraceError):
    """The API server's no. `code` is the HTTP status, `reason` the CamelCase one of its `Status` object."""

    def __init__(self, code: int, reason: str, message: str, *, subject: str) -> None:
        super().__init__(message, subject=subject)
        self.code = code
        self.reason = reason


class Api:
    """Requests by path; any number of threads may use it."""

    def __init__(self, connection: client.ApiClient) -> None:
        self._client = connection

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        """An object or a list. Raises `Refused` (404: not there), `Retriable` when there is no answer."""
        return self._json("GET", path, query)

    def find(self, path: str) -> Json | None:
        """An object, or None."""
        try:
            return self.get(path)
        except Refused as error:
            if error.code == 404:
                return None
            raise

    def create(self, path: str, obj: Mapping[str, Any]) -> Json:
        """POST to a collection."""
        return self._json("POST", path, {"fieldManager": FIELD_MANAGER}, obj)

    def replace(self, path: str, obj: Mapping[str, Any]) -> Json:
        """PUT; fails with 409 when the object's resourceVersion is not the newest."""
        return self._json("PUT", path, {"fieldManager": FIELD_MANAGER}, obj)

    def patch(self, path: str, patch: object, kind: str = MERGE_PATCH) -> Json:
        """PATCH; `kind` is the patch's content type. A patch to apply takes over fields that others have set."""
        query = {"fieldManager": FIELD_MANAGER} | ({"force": "true"} if kind == APPLY_PATCH else {})
        return self._json("PATCH", path, query, patch, kind)

    def delete(self, path: str, uid: str = "") -> None:
        """DELETE; that it is gone already is fine. With `uid` only that very object."""
        options = {"preconditions": {"uid": uid}} if uid else {}
        try:
            self._json(
                "DELETE", path, None, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"} | options
            )
        except Refused as error:
            if error.code not in (404, 409):
                raise

    def watch(self, path: str, query: Mapping[str, str], seconds: int) -> Iterator[Json]:
        """The events of a watch, one after another, until the server ends it (after `seconds` at the latest)."""
        asked = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        response = self._send("GET", path, asked, timeout=seconds + _SECONDS)
        try:
            buffer = b""
            for chunk in _chunks(response):
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise Retriable(f"the watch broke off: {error}", subject=path) from None
        finally:
            response.close()
            response.release_conn()

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        kind: str = "application/json",
    ) -> Json:
        response = self._send(method, path, query, body, kind)
        try:
            return dict(json.loads(response.data or b"{}"))
        finally:
            response.release_conn()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        kind: str = "application/json",
        timeout: float = _SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        settings = self._client.configuration
        headers = {"Accept": "application/json"} | ({"Content-Type": kind} if body is not None else {})
        # Asked for each time: the token of a pod is renewed by the kubelet.
        identity = settings.auth_settings().get("BearerToken")
        if identity is not None and identity["value"]:
            headers["Authorization"] = str(identity["value"])
        try:
            response = self._client.rest_client.pool_manager.request(
                method,
                f"{settings.host}{path}" + (f"?{urlencode(query)}" if query else ""),
                headers=headers,
                body=None if body is None else json.dumps(body).encode(),
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=timeout),
                preload_content=False,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Retriable(f"the Kubernetes API does not answer: {error}", subject=path) from None
        if response.status >= 300:
            raise _refusal(response, path)
        return response


def _chunks(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The bytes of a chunked answer as they come in."""
    while chunk := response.read1():
        yield chunk


def connect(kubeconfig: str = "") -> Api:
    """The API of the cluster that this runs in, or the one that a kubeconfig file names. Raises `UsageError` when there is neither."""
    settings = client.Configuration()
    try:
        if kubeconfig:
            config.load_kube_config(kubeconfig, client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        hint = "Give --kubeconfig FILE outside of a cluster"
        raise UsageError(
            f"no Kubernetes: {error}", subject=f"kubeconfig {kubeconfig or '(in the cluster)'}", hint=hint
        ) from None
    settings.connection_pool_maxsize = _CONNECTIONS
    settings.retries = False
    return Api(client.ApiClient(settings))


def _refusal(response: urllib3.BaseHTTPResponse, path: str) -> HeadraceError:
    try:
        status = json.loads(response.read() or b"{}")
    except (ValueError, urllib3.exceptions.HTTPError):
        status = {}
    finally:
        response.release_conn()
    status = status if isinstance(status, dict) else {}
    message = str(status.get("message") or response.reason or "refused")
    if response.status == 401:
        return Terminal(message, subject=path, hint="The Kubernetes API does not know this identity")
    return Refused(response.status, str(status.get("reason", "")), message, subject=path)
