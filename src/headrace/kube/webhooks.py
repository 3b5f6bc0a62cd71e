"""The admission webhooks' server, and the upkeep of its certificate: every operator serves, the leader or not.

The certificate is in a Secret. Whoever finds it missing or due makes a new one (the first write wins); the authority's certificate
goes into `caBundle` of both webhook configurations, together with the one before, so that no request fails while operators change over.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError, Terminal
from headrace.base.log import get_logger
from headrace.core.resources.base import Json
from headrace.core.resources.rules import Rules
from headrace.kube.admission import PATHS, answer
from headrace.kube.api import JSON_PATCH, Api, Refused
from headrace.kube.certificates import Certificate
from headrace.kube.labels import MANAGED
from headrace.kube.places import SECRET
from headrace.kube.settings import WebhookSettings

log = get_logger(__name__)
_LARGEST = 8 * 1024 * 1024
_REQUEST_SECONDS = 10
_LOOK_SECONDS = 10.0
_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


class WebhookServer:
    """Serves TLS with the certificate that `use` was given last."""

    def __init__(self, settings: WebhookSettings, rules: Callable[[], Rules]) -> None:
        self._settings = settings
        self._rules = rules
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._server: ThreadingHTTPServer | None = None
        self.port = settings.port
        self.answered = 0

    def use(self, certificate: Certificate) -> None:
        """Show this certificate to connections from now on."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "it.pem"
            path.touch(mode=0o600)
            path.write_bytes(certificate.key + certificate.chain)
            self._context.load_cert_chain(path)

    def start(self) -> None:
        """Listen. Raises `Terminal` when the port is taken."""
        host = self._settings.host
        try:
            server = _TlsServer((host, self.port), self._handler(), self._context)
        except OSError as error:
            raise Terminal(f"cannot listen: {error.strerror}", subject=f"webhook port {host}:{self.port}") from None
        self._server = server
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, name="webhooks", daemon=True).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def review(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to a review."""
        try:
            review = json.loads(body)
            result = answer(path, review, self._rules())
        except (ValueError, AttributeError, RecursionError) as error:
            return 400, f"not an AdmissionReview: {error}\n".encode()
        self.answered += 1
        if not result["response"]["allowed"]:
            log.info("Refused an object", path=path, message=result["response"]["status"]["message"])
        return 200, json.dumps(result).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        review = self.review

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = _REQUEST_SECONDS

            def do_POST(self) -> None:
                path = self.path.partition("?")[0]
                length = int(self.headers.get("Content-Length") or 0)
                if path not in PATHS or not 0 < length <= _LARGEST:
                    self.close_connection = True
                    self._say(404 if path not in PATHS else 413, b"")
                    return
                self._say(*review(path, self.rfile.read(length)))

            def _say(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Reviews are no news."""

        return Handler


class _TlsServer(ThreadingHTTPServer):
    """Shakes hands in the thread of the connection, so that a slow client holds up nobody."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext) -> None:
        super().__init__(address, handler)
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(_REQUEST_SECONDS)
        try:
            with self._context.wrap_socket(request, server_side=True) as wrapped:
                super().finish_request(wrapped, client_address)
        except OSError:
            # A probe, or a client that went away.
            pass


class CertificateKeeper:
    """Looks after the certificate in a thread: `use` is given each new one, `bundled` says when the configurations have it."""

    def __init__(
        self, api: Api, namespace: str, settings: WebhookSettings, clock: Clock, use: Callable[[Certificate], None]
    ) -> None:
        self._api = api
        self._settings = settings
        self._namespace = namespace
        self._clock = clock
        self._use = use
        self._hosts = (*(f"{settings.service}.{namespace}{end}" for end in (".svc", "")), *settings.names)
        self._current: Certificate | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificate", daemon=True)
        self.problem = "the webhooks' certificate is not there yet"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self.look()
                self.problem = ""
            except HeadraceError as error:
                if str(error) != self.problem:
                    log.warning("The webhooks' certificate needs care", error=error)
                self.problem = str(error)
            self._closing.wait(_LOOK_SECONDS if not self.problem else 1.0)

    def look(self) -> None:
        """Have a good certificate, show it, and have it trusted."""
        certificate = self._stored()
        if certificate != self._current:
            # Trusted before it is shown.
            self._bundle(certificate, self._current)
            self._use(certificate)
            self._current = certificate
            log.info("The webhooks have a new certificate")
        else:
            self._bundle(certificate, None)

    def _stored(self) -> Certificate:
        path = SECRET.path(self._namespace, f"{self._settings.service}-certificate")
        secret = self._api.find(path)
        found = Certificate.from_secret((secret or {}).get("data") or {})
        if found is not None and not found.due(self._hosts, self._clock.now()):
            return found
        made = Certificate.make(self._hosts, self._settings.days, self._clock.now())
        obj = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": f"{self._settings.service}-certificate", "namespace": self._namespace, "labels": MANAGED},
            "data": made.to_secret(),
        }
        try:
            if secret is None:
                self._api.create(SECRET.collection(self._namespace), obj)
            else:
                self._api.replace(path, secret | {"data": made.to_secret()})
        except Refused as error:
            if error.code != 409:
                raise
            raise HeadraceError("another operator has just made one", subject="webhook certificate") from None
        return made

    def _bundle(self, certificate: Certificate, before: Certificate | None) -> None:
        for plural in _CONFIGURATIONS:
            path = f"/apis/admissionregistration.k8s.io/v1/{plural}/{self._settings.configuration}"
            found = self._api.find(path)
            if found is None:
                raise HeadraceError(
                    "does not exist", subject=f"{plural}/{self._settings.configuration}", hint="Install the chart"
                )
            patch = _bundles(found, certificate, before)
            if patch:
                self._api.patch(path, patch, JSON_PATCH)


def _bundles(configuration: Json, certificate: Certificate, before: Certificate | None) -> list[Json]:

    wanted = base64.b64encode(certificate.authority + (before.authority if before else b"")).decode()
    alone = base64.b64encode(certificate.authority).decode()
    patch = []
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        current = hook["clientConfig"].get("caBundle", "")
        if current not in (wanted, alone) and not _contains(current, certificate):
            patch.append({"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": wanted})
    version = configuration["metadata"]["resourceVersion"]
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *patch] if patch else []


def _contains(bundle: str, certificate: Certificate) -> bool:

    try:
        return certificate.authority in base64.b64decode(bundle)
    except ValueError:
        return False
