"""What the driver and the control plane tell a worker: the contract topic, seen from one worker."""

from __future__ import annotations

from collections.abc import Callable

from headrace.base.log import get_logger
from headrace.core.contractlog import Change, ContractState, What, run_record
from headrace.dispatcher.spec import LaneOrders, WorkerSpec, lanes_key

log = get_logger(__name__)

_ORDERS = "@lanes/"


class Feed:
    """`state`: the contract as far as it was taken. `orders`: the driver's last ones to this run. `begun`: it was read to its end once."""

    def __init__(self, spec: WorkerSpec, exit: Callable[[int], None]) -> None:
        self._spec = spec
        self._exit = exit
        self._run_key, _ = run_record(spec.topic, spec.run, 0)
        self._run_mark = f'"{spec.run}"'.encode()
        self._lanes_key = lanes_key(spec.run)
        self.state = ContractState() if spec.contract is None else spec.contract.copy()
        self.orders = LaneOrders()
        self.begun = False

    def watch(self, key: str, value: bytes | None) -> None:
        """On the reader's thread: a newer run ends the process here and now, even if the engine should hang."""
        if self.begun and key == self._run_key and value is not None and self._run_mark not in value:
            log.info("A newer run has taken over", topic=self._spec.topic, run=self._spec.run)
            self._exit(0)

    def take(self, key: str, value: bytes | None, offset: int) -> Change | LaneOrders | None:
        """On the engine's thread: what a record changes, if anything."""
        if key.startswith(_ORDERS):
            self.state.offset = offset
            return self._take_orders(value) if key == self._lanes_key and value is not None else None
        change = self.state.apply(key, value, offset)
        if change.error is None:
            if change.what is What.RUN and self.begun:
                self._stay_only_if_in_force()
            return change
        log.error("A contract record can't be read; the one before stays in force", key=key, error=str(change.error))
        return None

    def begin(self) -> None:
        """The end has been reached: from now on records are news. An old run does not even begin."""
        self._stay_only_if_in_force()
        self.begun = True

    @property
    def drained(self) -> bool:
        """Whether this worker's run or job is to end."""
        return self._spec.owner in self.state.drains

    @property
    def offset(self) -> int:
        """The last contract record that is in force here; -1 before the beginning."""
        return self.state.offset if self.begun else -1

    def _stay_only_if_in_force(self) -> None:
        newest = self.state.runs.get(self._spec.topic)
        if newest != self._spec.run:
            log.info("Another run is in force", topic=self._spec.topic, run=self._spec.run, in_force=newest)
            self._exit(0)

    def _take_orders(self, value: bytes) -> LaneOrders | None:
        try:
            self.orders = LaneOrders.parse(value)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            log.error("Orders can't be read", run=self._spec.run, error=repr(error))
            return None
        return self.orders
