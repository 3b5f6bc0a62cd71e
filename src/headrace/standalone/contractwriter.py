"""Brings the contract topic to what a plan wants: only what differs is written, all of it in one transaction."""

from __future__ import annotations

from headrace.base.clock import Deadline
from headrace.base.log import get_logger
from headrace.control.model import Plan
from headrace.core.contract import Contract, dump
from headrace.core.contractlog import records_of
from headrace.home.tables import ContractTable, Written
from headrace.kafka.table import TableReader
from headrace.standalone.store import Writer

log = get_logger(__name__)
_READ_BACK_SECONDS = 10.0


class ContractWriter:
    """`reader` feeds `table`; a write returns once it has come back from there."""

    def __init__(self, writer: Writer, reader: TableReader, table: ContractTable) -> None:
        self._writer = writer
        self._reader = reader
        self._table = table

    def write(self, plan: Plan) -> None:
        """Write what differs. Raises what the writer raises."""
        changes = changes_to(plan, self._table.written())
        if not changes:
            return
        offset = self._writer.put_all(changes.items())
        self._reader.wait_applied(offset, Deadline(_READ_BACK_SECONDS))
        log.info("Contract written", records=len(changes) - 1, offset=offset)


def changes_to(plan: Plan, written: Written) -> dict[str, bytes | None]:
    """Key -> value (None: tombstone) of the records to write; the last one counts the contract's generation up. Pure."""
    changes: dict[str, bytes | None] = {}
    for uid, resource in plan.contract.items():
        there = written.records.get(uid)
        # Equal values need no look at their bytes; equal bytes are no change.
        if there is None or (there.resource != resource and dump(there.resource) != dump(resource)):
            changes[uid] = dump(resource)
    changes |= dict.fromkeys(written.records.keys() - plan.contract.keys())
    if changes or tuple(plan.trust_bundles) != written.trust_bundles:
        changes |= records_of(Contract(generation=written.generation + 1, trust_bundles=tuple(plan.trust_bundles)))
    return changes
