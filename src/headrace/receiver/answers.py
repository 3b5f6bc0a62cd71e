"""The answers of a receiver (design section 4): status, header lines, and a sentence for whoever sent the request."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.receiver.rsgi import Protocol

Lines = list[tuple[str, str]]

ACCEPTED = 202
_NO_LINES: Lines = []
_TEXT = ("content-type", "text/plain; charset=utf-8")
ALLOW = ("allow", "POST, OPTIONS")


@dataclass(frozen=True, slots=True)
class Answer:
    """A refusal, or any other answer that is not the 202 of an accepted event. `lines` are header lines beside the content type."""

    status: int
    text: str = ""
    lines: tuple[tuple[str, str], ...] = ()

    def send(self, protocol: Protocol) -> None:
        """Send it; does nothing where the request has been answered, or its connection is gone."""
        if self.text:
            protocol.response_str(self.status, [*self.lines, _TEXT], self.text + "\n")
        else:
            protocol.response_empty(self.status, list(self.lines))


def accept(protocol: Protocol) -> None:
    """Say that Kafka has the event."""
    protocol.response_empty(ACCEPTED, _NO_LINES)


OPTIONS = Answer(200, lines=(ALLOW,))
NOT_FOUND = Answer(404, "No broker, channel or sink has this address")
NOT_ALLOWED = Answer(405, "Events are sent by POST", (ALLOW,))
TIMEOUT = Answer(408, "The body did not arrive in time")
FULL = Answer(429, "Too many events wait for Kafka: send this one again later", (("retry-after", "1"),))
UNAVAILABLE = Answer(503, "Kafka does not take events at the moment: send this one again later", (("retry-after", "1"),))
STARTING = Answer(503, "The receiver has just started: send this one again soon", (("retry-after", "1"),))
TOO_LARGE_FOR_KAFKA = Answer(413, "The event is larger than its Kafka topic takes")
FAILED = Answer(500, "The receiver failed: see its log")
CUT_OFF = Answer(400, "The body ended before its end")

ISSUER_BUSY = Answer(503, "Tokens can't be verified at the moment: send this one again later", (("retry-after", "1"),))


def probed(network_hash: str | None) -> Answer:
    """The answer to a probe of the control plane."""
    return Answer(200, lines=(("k-network-hash", network_hash),) if network_hash is not None else ())


def closed(reason: str) -> Answer:
    """The answer of an ingress that is not served."""
    return Answer(503, f"This address does not take events: {reason}")


def bad_request(why: str) -> Answer:
    """The answer to what is no valid CloudEvent, or no valid request."""
    return Answer(400, why)


def too_large(limit: int) -> Answer:
    """The answer to a body of more than `limit` bytes."""
    return Answer(413, f"The body is larger than {limit} bytes")
