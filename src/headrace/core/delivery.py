"""The rules of one delivery: what an answer means, when to try again, what a dead letter says. Pure.

Sources: Knative `specs/eventing/data-plane.md` (response codes), `control-plane.md` (DeliverySpec), and for what those leave open the
behaviour of knative-extensions/eventing-kafka-broker: the first exponential wait is twice the delay, and a linear wait grows.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import Enum

from headrace.core.contract import BackoffPolicy, EgressConfig
from headrace.core.events.model import Event

DEFAULT_TIMEOUT_MS = 600_000
MAX_WAIT_MS = 24 * 3600 * 1000
"""No wait between two attempts is longer, whatever the policy gives."""

ERROR_DATA_BYTES = 1024
HOPS = "headracehops"
"""Extension that counts how often an event came back as a reply, if a hop limit is set."""

_RETRIED = frozenset({404, 408, 409, 429})
_PATIENT = frozenset({429, 503})
_OWN_NAMES = frozenset(
    {
        "specversion",
        "id",
        "source",
        "type",
        "subject",
        "time",
        "datacontenttype",
        "dataschema",
        "schemaurl",
        "datacontentencoding",
        "data",
        "knativeerrordest",
        "knativeerrorcode",
        "knativeerrordata",
    }
)
_EXTENSION = re.compile(r"[a-z0-9]+")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f]*")


class Verdict(Enum):
    """What became of one attempt."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REFUSED = "refused"


def judge(status: int) -> Verdict:
    """What a response code means: 2xx delivered; 404, 408, 409, 429, 5xx and any unknown code retried; the rest refused for good."""
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status in _RETRIED or status >= 500 or status < 100:
        return Verdict.RETRY
    return Verdict.REFUSED


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`retry`: further attempts after the first. `delay_ms`: base of the waits. `retry_after_max_ms`: None ignores `Retry-After`."""

    retry: int = 0
    backoff: BackoffPolicy = BackoffPolicy.EXPONENTIAL
    delay_ms: int = 0
    retry_after_max_ms: int | None = None

    @classmethod
    def of(cls, config: EgressConfig) -> RetryPolicy:
        """The policy that an egress asks for."""
        longest = config.headrace.get("retryAfterMax")
        return cls(config.retry, config.backoff_policy, config.backoff_delay, None if longest is None else int(longest))

    def wait_ms(self, attempts: int) -> int | None:
        """How long to wait after `attempts` (>= 1) failed ones; None when there is no further attempt."""
        if attempts > self.retry:
            return None
        wait = self.delay_ms * attempts if self.backoff is BackoffPolicy.LINEAR else self.delay_ms << min(attempts, 64)
        return min(wait, MAX_WAIT_MS)

    def wait_after(self, attempts: int, status: int, retry_after: str | None, now: float) -> int | None:
        """`wait_ms`, stretched to what a 429 or 503 asks for, within `retry_after_max_ms`. `now`: seconds since the epoch."""
        wait = self.wait_ms(attempts)
        if wait is None or self.retry_after_max_ms is None or status not in _PATIENT or retry_after is None:
            return wait
        asked = parse_retry_after(retry_after, now)
        return wait if asked is None else max(wait, min(int(asked * 1000), self.retry_after_max_ms))

    def base_ms(self, attempts: int, due_ms: int) -> int:
        """When the first of `attempts` failed ones was made, if the next is due at `due_ms` and all waits were those of the policy."""
        return due_ms - self._waits_ms(attempts)

    def left_ms(self, attempts: int, since_ms: int, now_ms: int) -> int:
        """How much of the wait after `attempts` failed ones, the first at `since_ms`, is left; 0 when none, or no attempt, is left.

        Never more than one such wait is, so that clocks that differ between two hosts do no harm.
        """
        wait = self.wait_ms(attempts) if attempts else None
        if wait is None:
            return 0
        left = since_ms + self._waits_ms(attempts) - now_ms
        return max(0, min(left, max(wait, self.retry_after_max_ms or 0)))

    def _waits_ms(self, attempts: int) -> int:
        """The waits after the first `attempts` failed ones, added up."""
        if not self.delay_ms:
            return 0
        most = MAX_WAIT_MS // self.delay_ms
        if self.backoff is BackoffPolicy.LINEAR:
            growing = min(attempts, most)
            waits = self.delay_ms * growing * (growing + 1) // 2
        else:
            growing = min(attempts, max(0, most.bit_length() - 1))
            waits = self.delay_ms * ((2 << growing) - 2)
        return waits + (attempts - growing) * MAX_WAIT_MS


def parse_retry_after(value: str, now: float) -> float | None:
    """Seconds to wait from a `Retry-After` value (seconds, or an HTTP date seen from `now`); None when it is neither."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """The last attempt of a delivery that has failed. `status` 0: there was no response; `reason` says why, for people."""

    destination: str
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    reason: str = ""


def dead_letter_extensions(failed: FailedDelivery) -> dict[str, str]:
    """What a dead letter says in addition to the event.

    `knativeerrordest` always; `knativeerrorcode` and, if the response had a body, `knativeerrordata` (base64 of its first 1024 bytes) if
    there was a response; one extension per `kne-` header, named by the rest in lower case. Headers whose rest is no extension name, or
    the name of an attribute that has a meaning of its own, are left out.
    """
    extensions = {"knativeerrordest": failed.destination}
    if failed.status:
        extensions["knativeerrorcode"] = str(failed.status)
        if failed.body:
            extensions["knativeerrordata"] = base64.b64encode(failed.body[:ERROR_DATA_BYTES]).decode()
        extensions |= _from_headers(failed.headers)
    return extensions


def dead_letter(event: Event, failed: FailedDelivery) -> Event:
    """`event` as it goes to the dead letter sink: same version, same data, the extensions added (or replaced)."""
    return with_extensions(event, dead_letter_extensions(failed))


def with_extensions(event: Event, extensions: Mapping[str, str]) -> Event:
    """`event` with `extensions` added or replaced."""
    return replace(event, attributes={**event.attributes, **extensions})


def next_hop(delivered: Mapping[str, str], reply: Event, limit: int) -> Event | None:
    """`reply` as it may be published: unchanged without a limit, else with its hops counted; None when it came round too often."""
    if limit <= 0:
        return reply
    text = delivered.get(HOPS, "0")
    hops = int(text) + 1 if text.isascii() and text.isdigit() and len(text) < 10 else 1
    return with_extensions(reply, {HOPS: str(hops)}) if hops <= limit else None


def timeout_ms(config: EgressConfig) -> int:
    """The time that one attempt may take."""
    return config.timeout or DEFAULT_TIMEOUT_MS


def _from_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for header, value in headers:
        lower = header.lower()
        name = lower[4:]
        if (
            lower.startswith("kne-")
            and value
            and name not in _OWN_NAMES
            and _EXTENSION.fullmatch(name)
            and _PRINTABLE.fullmatch(value)
        ):
            found[name] = value
    return found
