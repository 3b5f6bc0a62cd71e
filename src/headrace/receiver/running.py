"""`headrace receiver`: one receiver as the whole work of a process."""

from __future__ import annotations

import gc
import json
import os
import threading
from pathlib import Path

from headrace.base.clock import Clock, Deadline, SystemClock
from headrace.base.errors import Terminal
from headrace.base.log import get_logger
from headrace.core.contract import Reference
from headrace.kafka.settings import Auth
from headrace.receiver.config import ReceiverConfig, Secrets
from headrace.receiver.process import Receiver

log = get_logger(__name__)


def no_secrets(reference: Reference) -> Auth:
    """The `Secrets` of a receiver that has none."""
    raise Terminal("this receiver has no access to Secrets", subject=f"secret/{reference.namespace}/{reference.name}")


def build(config: ReceiverConfig, secrets: Secrets = no_secrets, clock: Clock | None = None) -> Receiver:
    """A receiver that has its ports, and waits for `start`. Raises `HeadraceError`."""
    return Receiver(config, secrets, clock or SystemClock())


def run(config: ReceiverConfig, stop: threading.Event, secrets: Secrets = no_secrets) -> None:
    """Serve until `stop` is set, then stop without losing a request. Raises `HeadraceError` when it can't start."""
    receiver = build(config, secrets)
    # What exists now lives as long as the process: the collector need not look at it again, and a request makes no cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    try:
        receiver.start()
        if config.addresses_file is not None:
            _write(config.addresses_file, {"url": receiver.url, "tlsUrl": receiver.tls_url, "opsUrl": receiver.ops_url})
        log.info("The receiver listens", url=receiver.url, tls_url=receiver.tls_url, ops_url=receiver.ops_url, name=config.name)
        stop.wait()
    finally:
        answered = receiver.stop(Deadline(config.stop_seconds))
    log.info("The receiver has stopped", all_answered=answered)


def _write(path: Path, value: dict[str, str]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(value))
        partial.replace(path)
    except OSError as error:
        raise Terminal(f"can't be written: {error.strerror}", subject=str(path)) from None
