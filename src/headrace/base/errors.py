"""Errors that carry the decision of what to do about them.

The text of each says what went wrong, which object it concerns and what to do. Nothing secret goes into a text.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """Something that a user can understand and act on.

    `subject` names the object (`trigger/orders`, `topic headrace.contract`, a path), `hint` says what to do.
    """

    exit_code = 1

    def __init__(self, message: str, *, subject: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.subject = subject
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.subject}: {self.message}" if self.subject else self.message
        return f"{text}. {self.hint}" if self.hint else text


class Terminal(HeadraceError):
    """Trying again can't help: the input or the setting has to change."""


class Retriable(HeadraceError):
    """Trying again may help, after `after` seconds at the earliest."""

    def __init__(self, message: str, *, subject: str = "", hint: str = "", after: float = 1.0) -> None:
        super().__init__(message, subject=subject, hint=hint)
        self.after = after


class UsageError(Terminal):
    """The command line or a configuration value is wrong."""

    exit_code = 2


class WaitTimeout(HeadraceError):
    """A wait that the user asked for ran out."""

    exit_code = 3
