"""JSON from a server that we trust by a file and that knows us by a file: an issuer of tokens, a Kubernetes API server.

Redirects are not followed and no proxy is taken from the environment: our token must not go elsewhere.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.base.errors import Retriable, Terminal

_ACCEPT = "application/json, application/jwk-set+json"
"""A Kubernetes API server gives its keys as the latter only."""

_MOST_BYTES = 1024 * 1024
_TIMEOUT_SECONDS = 5.0


class JsonServer:
    """`ca_file`: PEM of the authority that signed the server's certificate; None: those of the system. `token_file`: a bearer token to
    show, read anew each time. Any number of threads may use it."""

    def __init__(self, ca_file: Path | None = None, token_file: Path | None = None) -> None:
        """Raises `Terminal` when the file of the authority can't be used."""
        self._token_file = token_file
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise Terminal(f"no authority can be read from it: {error}", subject=str(ca_file)) from None
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect()
        )

    def call(self, url: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """GET, or POST `body`; the JSON object of the answer. Raises `Retriable` without an answer that can be used, `Terminal` for one
        that is no JSON object, or when our own token can't be used."""
        headers = {"accept": _ACCEPT}
        data = None
        if body is not None:
            headers["content-type"], data = "application/json", json.dumps(body).encode()
        try:
            if self._token_file is not None:
                headers["authorization"] = f"Bearer {self._token(self._token_file)}"
            request = urllib.request.Request(url, data, headers)
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                raw = response.read(_MOST_BYTES + 1)
            answer = json.loads(raw) if len(raw) <= _MOST_BYTES else None
        except urllib.error.HTTPError as error:
            raise Retriable(f"no answer that can be used: {_refusal(error)}", subject=url) from None
        except (OSError, ValueError) as error:
            raise Retriable(f"no answer that can be used: {error}", subject=url) from None
        if not isinstance(answer, dict):
            raise Terminal("the answer is no JSON object of a usable size", subject=url)
        return answer

    @staticmethod
    def _token(file: Path) -> str:
        token = file.read_text().strip()
        if not token or not token.isascii() or not token.isprintable():
            # Told here: what the HTTP library says of a bad header shows it.
            raise Terminal("holds no bearer token", subject=str(file))
        return token


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:
        return None


def _refusal(error: urllib.error.HTTPError) -> str:
    """The status, with what a Kubernetes `Status` object says about it."""
    with error:
        try:
            message = str(json.loads(error.read(_MOST_BYTES))["message"])
        except (OSError, ValueError, TypeError, KeyError):
            message = ""
    return f"{error}: {message[:500]}" if message else str(error)
