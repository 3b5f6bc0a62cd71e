"""The receiver: takes CloudEvents over HTTP and answers once Kafka has them (design section 4)."""

from headrace.receiver.config import Issuer, Limits, Production, ReceiverConfig, Secrets, Tls
from headrace.receiver.process import Receiver
from headrace.receiver.running import build, run

__all__ = ["Issuer", "Limits", "Production", "Receiver", "ReceiverConfig", "Secrets", "Tls", "build", "run"]
