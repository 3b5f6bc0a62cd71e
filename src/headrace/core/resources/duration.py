"""ISO 8601 durations (`PT0.2S`, `P7D`, `-PT1M`) as milliseconds.

Years and months have no fixed length: they count as the Gregorian average (365.2425 days; a twelfth of that), as Go's `period`
package has it, which Knative parses these fields with.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_NUMBER = r"(\d+(?:[.,]\d+)?)"
_PATTERN = re.compile(
    rf"([+-])?P(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?(T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.ASCII,
)
_DAY = 86_400_000
_YEAR = Fraction(3_652_425, 10_000) * _DAY
_UNITS = (_YEAR, _YEAR / 12, Fraction(7 * _DAY), Fraction(_DAY), Fraction(3_600_000), Fraction(60_000), Fraction(1_000))
_LONGEST_MS = 2**63 - 1


@lru_cache(maxsize=1024)
def parse_duration(text: str) -> int:
    """Milliseconds, rounded to the nearest. Raises `ValueError` with a text that says what was expected."""
    match = _PATTERN.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise ValueError("expected an ISO 8601 duration such as PT0.2S, PT10M or P7D")
    sign, *parts = match.groups()
    time = parts.pop(4)
    if all(part is None for part in parts) or time == "T":
        raise ValueError("expected at least one number in the duration, as in PT10S")
    total = sum(Fraction(part.replace(",", ".")) * unit for part, unit in zip(parts, _UNITS, strict=True) if part)
    if total > _LONGEST_MS:
        raise ValueError("the duration is too long")
    return -round(total) if sign == "-" else round(total)


def format_duration(milliseconds: int) -> str:
    """The shortest exact form in days, hours, minutes and seconds: 90000 -> `PT1M30S`."""
    sign, rest = ("-", -milliseconds) if milliseconds < 0 else ("", milliseconds)
    days, rest = divmod(rest, _DAY)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, millis = divmod(rest, 1_000)
    fraction = f".{millis:03d}".rstrip("0") if millis else ""
    clock = "".join((f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""))
    if seconds or millis or not (days or clock):
        clock += f"{seconds}{fraction}S"
    return f"{sign}P{f'{days}D' if days else ''}{'T' + clock if clock else ''}"
