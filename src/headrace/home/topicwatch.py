"""What Kafka says about the topics that the control plane wants to know of: asked in a thread, remembered for half a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError
from headrace.control.model import KafkaProblem, TopicAbsent, TopicFacts, TopicKey, TopicState
from headrace.kafka.admin import Admin

_FRESH_SECONDS = 30.0
_PROBLEM_SECONDS = 2.0


class TopicWatch:
    """`admin_of` gives the client of a topic's Kafka; `on_change` is called when an answer differs from the one before."""

    def __init__(self, admin_of: Callable[[TopicKey], Admin], on_change: Callable[[], None], clock: Clock) -> None:
        self._admin_of = admin_of
        self._on_change = on_change
        self._clock = clock
        self._states: dict[TopicKey, TopicState] = {}
        self._due: dict[TopicKey, float] = {}
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="topic watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(timeout=5)

    def states(self) -> dict[TopicKey, TopicState]:
        """The last answers."""
        with self._wake:
            return dict(self._states)

    def follow(self, topics: Iterable[TopicKey]) -> None:
        """Ask about exactly these from now on, new ones at once."""
        wanted = set(topics)
        with self._wake:
            for gone in self._due.keys() - wanted:
                del self._due[gone]
                self._states.pop(gone, None)
            for new in wanted - self._due.keys():
                self._due[new] = 0.0
            self._wake.notify()

    def refresh(self, topic: TopicKey) -> None:
        """Ask about a topic now and remember the answer (after an action that changed it)."""
        self._take(topic, self._ask(topic), follow=True)

    def _run(self) -> None:
        while True:
            with self._wake:
                now = self._clock.monotonic()
                due = [topic for topic, at in self._due.items() if at <= now]
                if not due:
                    self._wake.wait(min([max(0.0, at - now) for at in self._due.values()], default=60.0))
                if self._closing:
                    return
            for topic in due:
                self._take(topic, self._ask(topic), follow=False)

    def _take(self, topic: TopicKey, state: TopicState, *, follow: bool) -> None:
        with self._wake:
            if topic not in self._due and not follow:
                return
            wait = _PROBLEM_SECONDS if isinstance(state, KafkaProblem) else _FRESH_SECONDS
            self._due[topic] = self._clock.monotonic() + wait
            changed = self._states.get(topic) != state
            self._states[topic] = state
        if changed:
            self._on_change()

    def _ask(self, topic: TopicKey) -> TopicState:
        try:
            facts = self._admin_of(topic).describe(topic.topic)
        except HeadraceError as error:
            return KafkaProblem(f"{error} (Kafka at {topic.kafka.bootstrap})")
        return TopicAbsent() if facts is None else TopicFacts(facts.topic_id, facts.partitions)
