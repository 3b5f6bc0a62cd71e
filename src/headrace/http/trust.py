"""Which certificate authorities a subscriber's certificate is checked against: the system's, plus those of the contract.

libcurl keeps the parsed bundle of a *file* from one connection to the next, but not that of a text in memory. So bundles are written to
files named by their content, in a folder that only this user can write to.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import stat
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import certifi

from headrace.base.errors import Terminal

_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def ca_bundle(extra: Iterable[str] = ()) -> str:
    """Path of a PEM bundle: the system's authorities and the PEM texts `extra`. Raises `Terminal` when a text holds no certificate."""
    texts = tuple(dict.fromkeys(text.strip() for text in extra if text.strip()))
    for text in texts:
        _check(text)
    return _bundle(texts)


@lru_cache(maxsize=256)
def _bundle(texts: tuple[str, ...]) -> str:
    system = _system_file()
    if not texts:
        return system
    content = "\n".join((Path(system).read_text(), *texts, "")).encode()
    path = _folder() / f"ca-{hashlib.sha256(content).hexdigest()[:32]}.pem"
    if not path.exists():
        handle, scratch = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(scratch, path)
    return str(path)


def _system_file() -> str:
    default = ssl.get_default_verify_paths().cafile
    for path in (default, *_SYSTEM):
        if path and os.path.isfile(path):
            return path
    return certifi.where()


def _folder() -> Path:
    """A folder of ours that nobody else can write to; a new one if the usual name is taken by somebody else."""
    path = Path(tempfile.gettempdir(), f"headrace-trust-{os.getuid()}")
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        facts = path.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
            return Path(tempfile.mkdtemp(prefix="headrace-trust-"))
    return path


def _check(text: str) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise Terminal(f"not a PEM certificate: {error}", subject="CACerts") from None
