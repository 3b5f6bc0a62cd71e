"""What a report consists of before it is written: documents, what could not be had, and what is secret. Pure; who collects is above.

Everything is kept in memory until the end, so that a secret which is learnt late is hidden in what was collected early too, and nothing
secret is ever on the disk. Collectors keep documents small: the ends of logs, not whole logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import yaml

from headrace.base.errors import HeadraceError
from headrace.core.masking import Masker
from headrace.core.reportpage import Entry, Gap, index_page

INDEX = "index.html"
_MISSING = "missing.txt"
_UNSAFE = re.compile(r"[^\w.@:+-]+")


class Secrets(StrEnum):
    """What becomes of Secret objects: left out, their values hidden, or shown as they are."""

    OFF = "off"
    HIDDEN = "hidden"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Document:
    """One file of the report: its path, its heading on the index page, its content (structured data becomes YAML)."""

    path: str
    heading: str
    content: Any


@dataclass(frozen=True, slots=True)
class Missing:
    """What could not be collected, and why."""

    what: str
    reason: str


@dataclass(slots=True)
class Report:
    """Documents in the order of their collection. `tell` is called with each line that people see meanwhile.

    Whatever becomes of Secret objects, everything else is masked.
    """

    secrets: Secrets = Secrets.HIDDEN
    tell: Callable[[str], None] = lambda _: None
    documents: list[Document] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    masker: Masker = field(default_factory=Masker)
    _heading: str = ""

    @contextmanager
    def section(self, heading: str) -> Iterator[None]:
        """Documents that belong together; their heading is told. What goes wrong within is noted as missing, and the next comes."""
        self.begin(heading)
        with self.trying(heading):
            yield

    def begin(self, heading: str) -> None:
        """What is added from here on stands under this heading."""
        self._heading = heading
        self.tell(heading)

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """A step that may fail: that is noted, and is not the end."""
        try:
            yield
        except HeadraceError as error:
            self.miss(what, str(error))
        except Exception as error:  # A report is made when things are not as they should be: no fault of it may end it.
            self.miss(what, f"{type(error).__name__}: {error}")

    def add(self, path: str, content: Any, name: str = "") -> None:
        """One document; `name` is what is told of it (else its path). A path that is taken gets a number."""
        self.learn(content)
        path = self._free(_safe(path))
        self.documents.append(Document(path, self._heading, content))
        self.tell(f"    {self.masker.text(name or path)}")

    def add_config(self, path: str, text: str) -> None:
        """A configuration file: what it says is secret is hidden everywhere."""
        self.learn([text])
        self.add(path, text)

    def add_object(self, path: str, obj: Mapping[str, Any], name: str) -> None:
        """An object of an API, unless it is a Secret and those are to be left out: what is in it is hidden elsewhere all the same."""
        if obj.get("kind") == "Secret" and self.secrets is Secrets.OFF:
            self.learn(obj)
        else:
            self.add(path, obj, name)

    def miss(self, what: str, reason: str) -> None:
        """Note that something could not be collected."""
        self.missing.append(Missing(what, reason))
        self.tell(f"    {self.masker.text(what)}: not collected ({self.masker.text(_line(reason))})")

    def learn(self, data: Any) -> None:
        """Hide the secrets of this data everywhere, whether it becomes part of the report or not."""
        self.masker.learn_from(data)

    def gaps(self) -> list[Missing]:
        """What is missing, without secrets."""
        return [Missing(self.masker.text(one.what), self.masker.text(_line(one.reason))) for one in self.missing]

    def files(self, title: str, facts: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Path and content of every file, without secrets: the documents, the list of what is missing, and the index page, whose
        head says `facts`.
        """
        entries, gaps = [], self.gaps()
        for document in self.documents:
            text = self._text(document)
            entries.append(Entry(document.heading, document.path, text))
            yield document.path, text.encode("utf-8", "replace")
        yield _MISSING, "".join(f"{gap.what}: {gap.reason}\n" for gap in gaps).encode("utf-8", "replace")
        shown = {name: self.masker.text(value) for name, value in facts.items()}
        page = index_page(title, shown, entries, [Gap(gap.what, gap.reason) for gap in gaps])
        yield INDEX, page.encode("utf-8", "replace")

    def _text(self, document: Document) -> str:
        if isinstance(document.content, str):
            return self.masker.text(document.content)
        show = self.secrets is Secrets.ALL
        shown = self.masker.data(document.content, show_secrets=show)
        text = yaml.dump(shown, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=160)
        # Once more as text, for what only shows there; not where the content of Secrets is wanted.
        return text if show else self.masker.text(text)

    def _free(self, path: str) -> str:
        taken = {one.path.lower() for one in self.documents} | {INDEX, _MISSING}
        stem, dot, ending = path.rpartition(".")
        number, found = 2, path
        while found.lower() in taken:
            found = f"{stem}-{number}{dot}{ending}"
            number += 1
        return found


class _Dumper(yaml.SafeDumper):
    """Without anchors: they only puzzle readers."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _safe(path: str) -> str:
    """A path that stays within the archive, whatever names have gone into it."""
    parts = [_UNSAFE.sub("_", part)[:150] for part in path.split("/") if part.strip(".")]
    return "/".join(parts) or "unnamed"


def _line(text: str) -> str:
    return " ".join(text.split())
