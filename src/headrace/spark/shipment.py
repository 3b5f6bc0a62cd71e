"""Our code and what it imports, as one archive that Spark unpacks beside each executor of a cluster.

An executor's host needs a Python of the same minor version and nothing else. What goes in is found by importing the workers'
module in a fresh interpreter and asking which installed distributions its modules came from; Spark brings pyspark and py4j
itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from headrace.base.errors import Terminal
from headrace.base.log import get_logger

log = get_logger(__name__)

FOLDER = "headrace-env"
"""Name of the unpacked folder in an executor's working directory."""

_BROUGHT_BY_SPARK = {"pyspark", "py4j"}
_SKIPPED_FOLDERS = {"__pycache__", "tests", "include"}
_ASK = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
tops = {name.partition(".")[0] for name, module in sys.modules.items() if getattr(module, "__file__", None)}
print(json.dumps(sorted(tops)))
"""


def shipment(module: str, package: str, folder: Path) -> Path:
    """The archive with `module`, its package (ours, whole) and all that importing it needs; made once for each state of the code.

    Raises `Terminal` when the module can't be imported.
    """
    roots = _distributions(_imported(module) - {package})
    files = dict(_contents(roots, package))
    target = folder / f"{FOLDER}-{_digest(roots, files)}.zip"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        log.info("Packing code for the executors", archive=str(target), files=len(files))
        part = target.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, path in sorted(files.items()):
                archive.write(path, name)
        part.replace(target)
    return target


def _imported(module: str) -> set[str]:
    """Top-level names of all modules that have files once `module` is imported."""
    done = subprocess.run([sys.executable, "-c", _ASK, module], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Terminal(f"can't be imported: {done.stderr.strip().splitlines()[-1]}", subject=f"module {module}")
    return set(json.loads(done.stdout.splitlines()[-1]))


def _distributions(modules: set[str]) -> list[metadata.Distribution]:
    """The installed distributions of `modules`; those of the standard library have none."""
    owners = metadata.packages_distributions()
    names = {owner for module in modules for owner in owners.get(module, ())}
    return [metadata.distribution(name) for name in sorted(names) if name.lower() not in _BROUGHT_BY_SPARK]


def _contents(roots: list[metadata.Distribution], package: str) -> Iterator[tuple[str, Path]]:
    """Name within the archive and place of each file."""
    for root in roots:
        for file in root.files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and not _SKIPPED_FOLDERS & set(file.parts) and path.is_file():
                yield str(file), path
    ours = Path(str(__import__(package).__file__)).parent
    for path in ours.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(ours.parent)), path


def _digest(roots: list[metadata.Distribution], files: dict[str, Path]) -> str:
    """Changes when a distribution or a file of ours does."""
    known = [f"{root.name}={root.version}" for root in roots]
    known += [f"{name}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for name, path in sorted(files.items())]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
