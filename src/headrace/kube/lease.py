"""Leader election by a `coordination.k8s.io` Lease: at most one operator decides.

    FOLLOWER --lease free or expired, written by us--> LEADER --not renewed in time, or taken by another--> lost

A leader that could not renew for `renew` seconds stops deciding before anybody else may take the lease (`duration`). Expiry is judged
by how long a lease has looked the same here, not by the clocks of others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.resources.timestamps import format_time
from headrace.kube.api import Api, Refused
from headrace.kube.places import LEASE

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, as Knative's `config-leader-election` names them."""

    duration: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


class LeaderElection:
    """`acquire` waits until we lead; from then on `on_lost` is called once if we do not any more; `release` gives the lease up."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        on_lost: Callable[[], None],
        timing: Timing | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._on_lost = on_lost
        self._timing = timing or Timing()
        self._closing = threading.Event()
        self._seen: tuple[str, float] = ("", 0.0)
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self.leader = ""
        """Who leads, as far as is known."""

    def acquire(self, stop: threading.Event) -> bool:
        """Wait until we lead; False when `stop` was set before."""
        told = ""
        while not stop.is_set():
            try:
                if self._try():
                    log.info("Leading", lease=self._name, identity=self._identity)
                    self._thread.start()
                    return True
                if self.leader != told:
                    log.info("Another operator leads", lease=self._name, leader=self.leader)
                    told = self.leader
            except HeadraceError as error:
                log.warning("The lease can't be had yet", lease=self._name, error=error)
            stop.wait(self._timing.retry)
        return False

    def release(self) -> None:
        """Let the next one lead at once. To be called when nothing is decided any more."""
        self._closing.set()
        if self._thread.ident is None:
            return
        self._thread.join(timeout=self._timing.renew)
        try:
            lease = self._api.find(self._path)
            if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._api.replace(self._path, lease)
        except HeadraceError as error:
            log.warning("The lease was not given up, it will expire", lease=self._name, error=error)

    @property
    def _path(self) -> str:
        return LEASE.path(self._namespace, self._name)

    def _renew(self) -> None:
        renewed = self._clock.monotonic()
        while not self._closing.wait(self._timing.retry):
            try:
                if self._try():
                    renewed = self._clock.monotonic()
                    continue
                problem = f"{self.leader} has it"
            except HeadraceError as error:
                if self._clock.monotonic() - renewed < self._timing.renew:
                    continue
                problem = str(error)
            log.error("The lease is lost", lease=self._name, reason=problem)
            self._on_lost()
            return

    def _try(self) -> bool:
        """Take the lease or renew it; whether it is ours now."""
        lease = self._api.find(self._path)
        if lease is None:
            return self._written(lambda: self._api.create(LEASE.collection(self._namespace), self._fresh()))
        spec = lease.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        self.leader = holder
        if holder not in ("", self._identity) and not self._expired(lease, float(spec.get("leaseDurationSeconds") or 0)):
            return False
        changed = self._fresh()
        changed["metadata"] = lease["metadata"]
        taken = holder != self._identity
        changed["spec"]["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + taken
        if not taken:
            changed["spec"]["acquireTime"] = spec.get("acquireTime")
        return self._written(lambda: self._api.replace(self._path, changed))

    def _expired(self, lease: dict[str, Any], seconds: float) -> bool:
        now, version = self._clock.monotonic(), str(lease["metadata"]["resourceVersion"])
        if self._seen[0] != version:
            self._seen = (version, now)
        return now - self._seen[1] > seconds

    def _written(self, write: Callable[[], object]) -> bool:
        try:
            write()
        except Refused as error:
            if error.code == 409:
                return False
            raise
        self.leader = self._identity
        return True

    def _fresh(self) -> dict[str, Any]:
        now = format_time(self._clock.now()).removesuffix("Z") + ".000000Z"
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._timing.duration),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }
