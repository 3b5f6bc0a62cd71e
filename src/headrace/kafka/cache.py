"""The folder for what is fetched or made once and shared by all data folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """`HEADRACE_CACHE_DIR`, else `~/.cache/headrace`. It may not exist yet."""
    environ = os.environ if environ is None else environ
    return Path(environ.get("HEADRACE_CACHE_DIR") or "~/.cache/headrace").expanduser().absolute()
