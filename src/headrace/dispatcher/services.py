"""What the parts of one driver share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.clock import Clock
from headrace.core.contractlog import ContractState
from headrace.core.names import Internal
from headrace.dispatcher.config import DispatcherConfig
from headrace.dispatcher.dataplane import Dataplane
from headrace.dispatcher.progress_table import ProgressTable
from headrace.dispatcher.slots import SlotBook
from headrace.kafka.admin import Admin
from headrace.kafka.settings import KafkaSettings
from headrace.spark.session import SparkRuntime


class Admins:
    """One `Admin` per Kafka."""

    def __init__(self) -> None:
        self._admins: dict[KafkaSettings, Admin] = {}
        self._lock = threading.Lock()

    def of(self, settings: KafkaSettings) -> Admin:
        """The admin of that Kafka, made when first asked for."""
        with self._lock:
            if settings not in self._admins:
                self._admins[settings] = Admin(settings)
            return self._admins[settings]


@dataclass(frozen=True)
class Services:
    """Made once by `driver.build`. `contract`: the contract, as far as it was read.

    `contract_now`: the contract, read to the end that it has when this is called (raises `Retriable` if that can't be). `failed`: ends
    the process with this error.
    """

    config: DispatcherConfig
    clock: Clock
    names: Internal
    spark: SparkRuntime
    admins: Admins
    slots: SlotBook
    table: ProgressTable
    dataplane: Dataplane
    contract: Callable[[], ContractState]
    contract_now: Callable[[], ContractState]
    failed: Callable[[BaseException], None]
