"""What the Kubernetes home is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.control.model import Json
from headrace.control.settings import Settings


@dataclass(frozen=True, slots=True)
class Size:
    """What a pod asks for, as Kubernetes writes it; `memory` is its limit as well. `cpu_limit` empty: none."""

    cpu: str
    memory: str
    cpu_limit: str = ""

    @property
    def resources(self) -> Json:
        """The `resources` of a container of this size."""
        limits = {"memory": self.memory} | ({"cpu": self.cpu_limit} if self.cpu_limit else {})
        return {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": limits}


@dataclass(frozen=True, slots=True)
class PlaneSettings:
    """The data plane's pods.

    `receivers`: replicas of the receiver; 0: left to an autoscaler. `dispatcher_per_broker`: a dispatcher for each Broker instead of
    one for all. `bootstrap`, `auth_secret`: the installation's Kafka and the name of the Secret that opens it (empty: none), in the
    installation's namespace. `pull_secrets`: names of image pull secrets. `account`: the ServiceAccount of the pods. `executors`: pods with
    Spark executors of each dispatcher; 0: Spark runs in its own. `executor_slots`: tasks that each runs at once. `dispatcher_account`: the
    ServiceAccount of dispatchers that make such pods.
    """

    image: str
    bootstrap: str
    auth_secret: str = ""
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    account: str = "headrace-data-plane"
    receivers: int = 1
    receiver: Size = field(default_factory=lambda: Size("200m", "256Mi"))
    dispatcher: Size = field(default_factory=lambda: Size("1", "2Gi"))
    dispatcher_per_broker: bool = False
    executors: int = 0
    executor: Size = field(default_factory=lambda: Size("1", "2Gi"))
    executor_slots: int = 64
    dispatcher_account: str = "headrace-dispatcher"
    instance: str = "headrace"
    log_level: str = "INFO"


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """`service`: name of the Service before the webhooks (in their certificate, with `names`); `configuration`: name of the two
    configurations that get the authority's certificate. `days`: how long a certificate lasts; it is renewed after two thirds of that.
    """

    host: str = "0.0.0.0"
    port: int = 8443
    service: str = "headrace-webhook"
    configuration: str = "headrace"
    days: float = 90.0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """One operator. `namespace`: the installation's; `identity`: this process, for the lease; `account`: its user name at the API."""

    home: Settings
    plane: PlaneSettings
    namespace: str
    identity: str
    account: str
    deployment: str = ""
    """Name of the operator's own Deployment, which owns what it makes; empty outside of a cluster."""
    webhook: WebhookSettings = field(default_factory=WebhookSettings)
    ops_host: str = "0.0.0.0"
    ops_port: int = 9093
    deploys: bool = True
    """Whether the data plane's Deployments are made; without them only contracts are written."""
