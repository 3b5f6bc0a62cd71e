"""`kubectl`, or `oc`, for what is done with the user's own rights: it brings contexts, credentials and plugins for them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from headrace.base.errors import Retriable, Terminal

_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Commands in one context and namespace (empty: the current ones)."""

    context: str = ""
    namespace: str = ""

    def prefix(self) -> list[str]:
        """The command up to the subcommand. Raises `Terminal` when neither program is installed."""
        program = shutil.which("kubectl") or shutil.which("oc")
        if program is None:
            raise Terminal("is not installed", subject="kubectl", hint="Install it, or do without --kubernetes")
        place = ["-n", self.namespace] if self.namespace else []
        return [program, *(["--context", self.context] if self.context else []), *place]

    def run(self, *arguments: str, stdin: str | None = None, subject: str = "", seconds: float = _SECONDS) -> str:
        """What the command prints. Raises `Terminal` with its words when it fails, `Retriable` when it does not end in time."""
        subject = subject or f"kubectl {arguments[0]}"
        try:
            done = subprocess.run(
                [*self.prefix(), *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Retriable(f"no answer within {seconds:g} s", subject=subject) from None
        if done.returncode:
            raise Terminal(done.stderr.strip() or "failed", subject=subject)
        return done.stdout
