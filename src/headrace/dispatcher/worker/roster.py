"""Which lanes there are: the contract, applied to the ring of one partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.base.errors import HeadraceError
from headrace.base.log import get_logger
from headrace.core.contract import Egress, Resource
from headrace.core.contractlog import Change, ContractState, What
from headrace.core.filters import FilterIndex, compile_egress
from headrace.core.progress import Progress, ProgressRecord
from headrace.dispatcher.spec import Mode, WorkerSpec
from headrace.dispatcher.worker.lane import Lane, LaneState
from headrace.dispatcher.worker.ring import Ring
from headrace.dispatcher.worker.subscription import Subscription, subscription_of
from headrace.dispatcher.worker.window import Window

log = get_logger(__name__)

POSITION_UNKNOWN = "PositionUnknown: its initial position is being looked up"


class Roster:
    """`lanes` by uid; `closed`: egresses that are not served, with the reason; `lost_places`: lanes whose position is not known yet.

    Nothing is started before `bind` has said which partition this is. What a change touched is in `touched` (to be pumped), `parked` (has
    left the ring, and need not begin what it has not begun) and `removed` (to be broken off): the caller empties them. `window`: shared by
    all lanes.
    """

    def __init__(self, spec: WorkerSpec, window: Window) -> None:
        self._spec = spec
        self._window = window
        self._servers = _servers(spec.kafka.bootstrap_servers)
        self._wanted: dict[str, Subscription] = {}
        self._of_resource: dict[str, set[str]] = {}
        self._positions: dict[str, ProgressRecord] = {}
        self._trust: tuple[str, ...] = ()
        self.ring: Ring | None = None
        self.partition = -1
        self.index: FilterIndex[Lane] = FilterIndex()
        self.lanes: dict[str, Lane] = {}
        self.closed: dict[str, str] = {}
        self.touched: list[Lane] = []
        self.parked: list[Lane] = []
        self.removed: list[Lane] = []

    def bind(self, partition: int, ring: Ring) -> None:
        """This is `partition`: its lanes start, from the positions of the spec."""
        self.partition, self.ring = partition, ring
        for uid, records in self._spec.positions.items():
            if partition in records:
                self._know(uid, records[partition])
        for uid in list(self._wanted):
            self._start(uid)

    def apply_all(self, state: ContractState) -> None:
        """Take the whole contract in."""
        self._trust = state.trust_bundles
        for uid, resource in list(state.resources.items()):
            self._resource(uid, resource, state)

    def apply(self, state: ContractState, change: Change) -> None:
        """Take a change of the contract in."""
        if change.what is What.CONTRACT:
            if state.trust_bundles != self._trust:
                self.apply_all(state)
        elif change.what is What.RESOURCE:
            self._resource(change.name, state.resources.get(change.name), state)

    def locate(self, records: Mapping[str, bytes]) -> None:
        """Positions of `lost_places`, by uid, as found in the progress topic."""
        for uid, value in records.items():
            if uid in self._wanted and uid not in self.lanes and self._know(uid, value):
                self._start(uid)

    def stored(self, uid: str) -> ProgressRecord:
        """The record that a lane began from."""
        return self._positions[uid]

    @property
    def lost_places(self) -> list[str]:
        """Uids of wanted lanes that could not start because their position is not known."""
        return [uid for uid in self._wanted if uid not in self.lanes] if self.ring is not None else []

    def _resource(self, resource_uid: str, resource: Resource | None, state: ContractState) -> None:
        now: dict[str, Egress] = {}
        if resource is not None and self._concerns(resource):
            now = {egress.uid: egress for egress in resource.egresses if self._serves(egress.uid)}
        for uid in self._of_resource.pop(resource_uid, set()) - now.keys():
            self._remove(uid)
        if now:
            assert resource is not None
            self._of_resource[resource_uid] = set(now)
        for egress in now.values():
            assert resource is not None
            self._egress(resource, egress, state)

    def _concerns(self, resource: Resource) -> bool:
        servers = _servers(resource.bootstrap_servers)
        return self._spec.topic in resource.topics and (not servers or servers == self._servers)

    def _serves(self, uid: str) -> bool:
        return self._spec.mode is Mode.LIVE or uid in self._spec.positions

    def _egress(self, resource: Resource, egress: Egress, state: ContractState) -> None:
        try:
            subscription = subscription_of(resource, egress, state.trust_bundles, tokens=self._spec.tokens is not None)
        except HeadraceError as error:
            if self.closed.get(egress.uid) != str(error):
                log.error("A subscription is not served", uid=egress.uid, reason=str(error))
            self._remove(egress.uid)
            self.closed[egress.uid] = str(error)
            return
        before = self._wanted.get(egress.uid)
        self._wanted[egress.uid] = subscription
        self.closed.pop(egress.uid, None)
        lane = self.lanes.get(egress.uid)
        if lane is None:
            self._start(egress.uid)
        elif subscription != before:
            self._change(lane, subscription)

    def _start(self, uid: str) -> None:
        if self.ring is None:
            return
        record = self._positions.get(uid)
        if record is None:
            if self._spec.mode is Mode.LIVE:
                self.closed[uid] = POSITION_UNKNOWN
            return
        self.closed.pop(uid, None)
        lane = self.lanes[uid] = Lane(self._wanted[uid], self.ring, self._spec.limits, self._spec.workers, self._window)
        lane.writer = self._spec.writer(record.run)
        lane.hold(record.progress, LaneState.PAUSED if self._wanted[uid].paused else LaneState.PARKED)
        if lane.state is LaneState.PARKED:
            self.enter(lane, record.progress)

    def enter(self, lane: Lane, progress: Progress) -> bool:
        """Make a lane that stands still live from `progress`, if the ring still holds all that it has to do; False if not."""
        assert self.ring is not None
        if progress.position < self.ring.floor:
            log.info("A lane is behind the ring", lane=lane.uid, partition=self.partition, position=progress.position)
            lane.hold(progress)
            return False
        lane.start(progress)
        self._listen(lane)
        self.touched.append(lane)
        return True

    def park(self, lane: Lane, state: LaneState = LaneState.PARKED) -> None:
        """Take a live lane off the ring."""
        self.index.remove(lane)
        lane.park(state)
        if lane.at_rest:
            lane.settle()
        else:
            self.parked.append(lane)

    def _change(self, lane: Lane, subscription: Subscription) -> None:
        before = lane.subscription
        lane.configure(subscription)
        if subscription.paused and lane.state is LaneState.LIVE:
            self.park(lane, LaneState.PAUSED)
        elif not subscription.paused and lane.state is LaneState.PAUSED:
            lane.state = LaneState.PARKED
            if lane.at_rest:
                self.enter(lane, lane.progress())
        elif lane.state is LaneState.LIVE and _filter(before) != _filter(subscription):
            assert self.ring is not None
            accepts = compile_egress(subscription.egress)
            self.index.add(lane, subscription.egress)
            lane.rematch(record for record in self.ring.records if accepts(record.attributes))
        self.touched.append(lane)

    def _listen(self, lane: Lane) -> None:
        assert self.ring is not None
        egress = lane.subscription.egress
        self.index.add(lane, egress)
        accepts = compile_egress(egress)
        for record in self.ring.since(lane.begin):
            if accepts(record.attributes):
                lane.offer(record)

    def _remove(self, uid: str) -> None:
        self._wanted.pop(uid, None)
        self.closed.pop(uid, None)
        self._positions.pop(uid, None)
        lane = self.lanes.pop(uid, None)
        if lane is not None:
            self.index.remove(lane)
            if lane.state is LaneState.LIVE:
                lane.park()
            self.removed.append(lane)

    def _know(self, uid: str, value: bytes) -> bool:
        try:
            record = ProgressRecord.decode(value)
        except HeadraceError as error:
            log.error("A position can't be read", lane=uid, partition=self.partition, error=str(error))
            return False
        if not record.concerns(uid, self._spec.topic_id):
            return False
        self._positions[uid] = record
        return True

    def live(self) -> Iterator[Lane]:
        """The lanes that take events."""
        return (lane for lane in self.lanes.values() if lane.state is LaneState.LIVE)


def _filter(subscription: Subscription) -> object:
    return subscription.egress.filter, subscription.egress.dialected_filter, subscription.order


def _servers(text: str) -> frozenset[str]:
    return frozenset(server.strip() for server in text.split(",") if server.strip())
