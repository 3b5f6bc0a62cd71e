"""From the resources of the contract to the ingresses that are served.

What a resource asks for and this version can't do closes its ingress (503): an `audience` that is ignored would open a door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.contract import ContentMode, Reference, Resource, unknown_fields
from headrace.core.contract import Ingress as Address
from headrace.kafka.settings import Auth, KafkaSettings
from headrace.receiver.config import Secrets
from headrace.receiver.guard import Gatekeeper, Guard
from headrace.receiver.latencies import Labels, Latencies
from headrace.receiver.pool import ProducerPool
from headrace.receiver.table import Ingress, IngressTable

log = get_logger(__name__)

SECRET_SECONDS = 30.0
"""Age at which a Secret is asked for again: its content may change under the same reference."""


class Opener:
    """Makes the table of ingresses anew for each state of the contract, and says in the log what is closed and why, once."""

    def __init__(
        self,
        own: KafkaSettings | None,
        pool: ProducerPool,
        secrets: Secrets,
        clock: Clock,
        latencies: Callable[[Labels], Latencies],
        gatekeeper: Gatekeeper | None = None,
    ) -> None:
        """`own` is the Kafka of this Headrace: resources of the same servers that name no Secret are written with its identity."""
        self._own = own
        self._pool = pool
        self._secrets = secrets
        self._clock = clock
        self._latencies = latencies
        self._gatekeeper = gatekeeper
        self._auths: dict[tuple[str, ...], tuple[float, Auth]] = {}
        """The identities in use, by Secret, with the time when each was had."""
        self._auths_before: dict[tuple[str, ...], tuple[float, Auth]] = {}
        self._told: set[str] = set()
        self.table = IngressTable()
        """The table in force."""
        self.unsettled = False
        """A Secret could not be had: to be tried again soon."""

    def open(self, resources: Iterable[Resource]) -> IngressTable:
        """The table of `resources`. One that holds an address in the table in force keeps it, else the first one gets it."""
        self.unsettled = False
        before = self.table
        self._auths_before, self._auths = self._auths, {}
        wanted = sorted(resources, key=lambda resource: resource.uid in before.closed or resource.uid not in before.ingresses)
        table = IngressTable([self._ingress(resource) for resource in wanted])
        used = {ingress.producer for ingress in table.ingresses.values() if ingress.producer is not None}
        if self._own is not None:
            used.add(self._pool.get(self._own))
        self._pool.keep(used)
        self._tell(before, table)
        self.table = table
        return table

    @property
    def has_secrets(self) -> bool:
        """Some identity came from a Secret, so `open` is to be repeated when Secrets may have changed."""
        return bool(self._auths) or self.unsettled

    def _ingress(self, resource: Resource) -> Ingress:
        address = resource.ingress or Address()
        ref = resource.reference
        ingress = Ingress(
            uid=resource.uid,
            path=address.path,
            host=address.host,
            structured=address.content_mode is ContentMode.STRUCTURED,
            latencies=self._latencies(Labels(ref.kind.lower(), ref.namespace, ref.name)),
        )
        try:
            ingress.closed = "; ".join(self._unsupported(resource, address))
            if not ingress.closed:
                ingress.topic = resource.topics[0]
                ingress.guard = self._guard(address)
                ingress.producer = self._pool.get(self._settings(resource))
                ingress.plain = ingress.guard is None and not ingress.structured
        except HeadraceError as error:
            ingress.closed = str(error)
        except Exception:
            log.exception("An ingress could not be opened", uid=resource.uid)
            ingress.closed, self.unsettled = "it could not be opened: the receiver's log says why", True
        for name in unknown_fields(resource):
            self._once(name)
        return ingress

    def _unsupported(self, resource: Resource, address: Address) -> Iterator[str]:
        if len(resource.topics) != 1:
            yield f"topics: exactly one is needed, there are {len(resource.topics)}"
        if not address.path and not address.host:
            yield "ingress: it has neither a path nor a host"
        if resource.multi_auth_secret:
            yield "multiAuthSecret is not supported: use authSecret"
        if resource.feature_flags.get("enableEventTypeAutocreate"):
            yield "featureFlags.enableEventTypeAutocreate is not supported"
        if address.audience and self._gatekeeper is None:
            yield "ingress.audience: this receiver has no issuer to verify tokens with"
        if address.event_policies and not address.audience:
            yield "ingress.eventPolicies: without an audience nobody can be told apart"

    def _guard(self, address: Address) -> Guard | None:
        if not address.audience or self._gatekeeper is None:
            return None
        return self._gatekeeper.guard(address.audience, address.event_policies)

    def _settings(self, resource: Resource) -> KafkaSettings:
        """A resource that names no servers is at the Kafka of this Headrace, as the dispatcher has it too."""
        servers = resource.bootstrap_servers or (self._own.bootstrap_servers if self._own is not None else "")
        if resource.auth_secret is not None:
            return KafkaSettings(servers, self._auth(resource.auth_secret))
        settings = KafkaSettings(servers)
        if self._own is not None and _servers(self._own) == _servers(settings):
            return self._own
        return settings

    def _auth(self, reference: Reference) -> Auth:
        now = self._clock.monotonic()
        key = (reference.namespace, reference.name, reference.uuid, reference.version)
        since, auth = self._auths.get(key) or self._auths_before.get(key) or (now, None)
        if auth is None or now - since >= SECRET_SECONDS:
            since = now
            try:
                auth = self._secrets(reference)
            except HeadraceError:
                self.unsettled = True
                if auth is None:
                    raise
        self._auths[key] = (since, auth)
        return auth

    def _tell(self, before: IngressTable, now: IngressTable) -> None:
        known, closed = before.closed, now.closed
        for uid, reason in closed.items():
            if known.get(uid) != reason:
                labels = now.ingresses[uid].latencies.labels
                log.error(
                    "An ingress is closed", resource=f"{labels.kind}/{labels.namespace}/{labels.name}", uid=uid, reason=reason
                )
        for uid in known.keys() - closed.keys():
            if uid in now.ingresses:
                log.info("An ingress is open again", uid=uid)

    def _once(self, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            log.info("The contract has a field that this version does not know", field=name)


def _servers(settings: KafkaSettings) -> set[str]:
    return {server.strip() for server in settings.bootstrap_servers.split(",")}
