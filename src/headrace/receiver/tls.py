"""The certificate that a listener shows, and its renewal while the process runs."""

from __future__ import annotations

import hashlib
import ssl

from headrace.base.errors import Terminal
from headrace.base.log import get_logger
from headrace.receiver.config import Tls
from headrace.receiver.listener import Certificate, Listener

log = get_logger(__name__)


class CertificateWatch:
    """Knows which certificate is shown. A pair of files that does not fit (yet) is not taken up: the old one stays."""

    def __init__(self, tls: Tls) -> None:
        """Raises `Terminal` when the files can't be used."""
        self._tls = tls
        self._shown = _fingerprint(tls)
        self._refused = b""
        self.certificate = check(tls)

    def renew(self, listener: Listener) -> bool:
        """Give the listener what is in the files now, if that is new and right; whether it was. To be called now and then."""
        try:
            found = _fingerprint(self._tls)
            if found in (self._shown, self._refused):
                return False
            self._refused = found
            certificate = check(self._tls)
            if _fingerprint(self._tls) != found:
                self._refused = b""
                return False
        except Terminal as error:
            log.error("The new certificate can't be used: the old one stays", error=str(error))
            return False
        listener.renew(certificate)
        self._shown, self._refused = found, b""
        log.info("A new certificate is shown", file=self._tls.certificate)
        return True


def check(tls: Tls) -> Certificate:
    """The files as a certificate that granian can use without a doubt: it would end the thread. Raises `Terminal`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise Terminal(
            f"the certificate and its key can't be used: {reason}",
            subject=f"{tls.certificate}, {tls.key}",
            hint="Give PEM files: a certificate chain and its private key, not encrypted",
        ) from None
    return Certificate(tls.certificate, tls.key)


def _no_password() -> str:
    raise ValueError("the private key is encrypted")


def _fingerprint(tls: Tls) -> bytes:
    digest = hashlib.sha256()
    for path in (tls.certificate, tls.key):
        try:
            digest.update(path.read_bytes())
        except OSError as error:
            raise Terminal(f"can't be read: {error.strerror}", subject=str(path)) from None
        digest.update(b"\0")
    return digest.digest()
