"""A contract file, republished to the contract topic: workers, which may be on other hosts, always read the topic.

Before an egress appears there, the positions of its lanes are stored, as a control plane would do: so the workers need not care where a
contract comes from. Only what `--only` selects is written or removed, since each dispatcher of a Headrace republishes its own part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.contract import Contract, Resource
from headrace.core.contractlog import CONTRACT_KEY, records_of
from headrace.dispatcher.lanes import Lanes, log_facts
from headrace.dispatcher.selection import TopicPlan, selected_topics
from headrace.dispatcher.services import Services
from headrace.kafka.contracts import TopicContract
from headrace.kafka.table import TableWriter

log = get_logger(__name__)

_RETRY = 2.0
_CURRENT_SECONDS = 30.0

Plans = Callable[[Iterable[Resource]], Mapping[str, TopicPlan]]
"""Resources -> the plans of the topics that this dispatcher serves."""


class Republisher:
    """Publishes, in a thread, the last contract that `publish` was given, until it is in the topic."""

    def __init__(self, services: Services, topic: TopicContract, plans: Plans) -> None:
        config = services.config
        self._services = services
        self._topic = topic
        self._plans = plans
        self._only = config.only
        self._writer = TableWriter(config.kafka, config.contract.topic)
        self._wanted: Contract | None = None
        self._bell = threading.Event()
        self._closing = False
        self.current = False
        """Whether all of the last contract is in the topic."""
        self._thread = threading.Thread(target=self._run, name="republisher", daemon=True)

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def publish(self, contract: Contract) -> None:
        """The file says this now."""
        self._wanted, self.current = contract, False
        self._bell.set()

    def close(self) -> None:
        """Stop; what is not published yet stays so."""
        self._closing = True
        self._bell.set()
        self._thread.join()
        self._writer.close()

    def _run(self) -> None:
        while not self._closing:
            self._bell.wait(_RETRY if self._wanted is not None and not self.current else None)
            self._bell.clear()
            contract = self._wanted
            if contract is None or self.current or self._closing:
                continue
            try:
                self._one(contract)
                self.current = contract is self._wanted
            except HeadraceError as error:
                log.warning("The contract file is not republished yet", error=str(error))

    def _one(self, contract: Contract) -> None:
        """Positions first, then the records that differ, then the tombstones of what is gone."""
        snapshot = self._topic.state
        self._initialise(self._plans(contract.resources), self._plans(snapshot.resources.values()))
        topics = selected_topics([*contract.resources, *snapshot.resources.values()], self._only)
        wanted = records_of(contract)
        known = records_of(Contract(resources=tuple(snapshot.resources.values())))
        mine = {resource.uid for resource in contract.resources if _is_in(resource, topics)}
        changed = [(key, wanted[key]) for key in (CONTRACT_KEY, *mine) if known.get(key) != wanted[key]]
        gone = [uid for uid, resource in snapshot.resources.items() if uid not in mine and _is_in(resource, topics)]
        self._writer.put_all([*changed, *((uid, None) for uid in gone)])
        log.info("Contract file republished", generation=contract.generation, changed=len(changed), removed=len(gone))

    def _initialise(self, plans: Mapping[str, TopicPlan], before: Mapping[str, TopicPlan]) -> None:
        services = self._services
        services.table.wait_current(Deadline(_CURRENT_SECONDS, services.clock))
        for topic, plan in plans.items():
            known = before[topic].lanes if topic in before else {}
            fresh = [lane for uid, lane in plan.lanes.items() if uid not in known]
            if fresh and plan.settings is not None:
                admin = services.admins.of(plan.settings)
                Lanes(admin, services.table, services.clock).locate(topic, log_facts(admin, topic), fresh)


def _is_in(resource: Resource, topics: set[str] | None) -> bool:
    return topics is None or any(topic in topics for topic in resource.topics)
