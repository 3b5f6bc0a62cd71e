"""The report as a zip: there at once or not at all, never in the place of another file, readable by its owner only."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from headrace.base.errors import Terminal
from headrace.core.report import Report

FOLDER = "reports"
"""In the zip everything is in this folder, as in the archives of Strimzi's `report.sh`."""


def default_name(now: datetime) -> str:
    """The name of a report that is made now."""
    return f"headrace-report-{now:%Y-%m-%d_%H-%M-%S}.zip"


def check_free(path: Path) -> None:
    """Raises `Terminal` when the report can't be written there; best asked before it is collected."""
    if path.exists() or path.is_symlink():
        raise Terminal("exists already", subject=str(path), hint="Choose another name with --file")
    if not os.access(path.absolute().parent, os.W_OK):
        raise Terminal("its folder is not there, or can't be written to", subject=str(path), hint="Choose another with --file")


def write(report: Report, path: Path, title: str, facts: Mapping[str, str]) -> None:
    """Write the report. Raises `Terminal` when the file is there by now, or the disk does not take it."""
    check_free(path)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    except OSError as error:
        raise _failed(path, error) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for inside, content in report.files(title, facts):
                    archive.writestr(f"{FOLDER}/{inside}", content)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, does not replace what has come there meanwhile.
        os.link(name, path)
    except FileExistsError:
        check_free(path)
        raise
    except OSError as error:
        raise _failed(path, error) from None
    finally:
        Path(name).unlink(missing_ok=True)


def _failed(path: Path, error: OSError) -> Terminal:
    return Terminal(f"can't be written: {error.strerror}", subject=str(path), hint="Choose another place with --file")
