"""Auth files: a v1 Secret manifest on disk, as `kubectl get secret -o yaml` prints it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from headrace.base.errors import UsageError
from headrace.kafka.auth import Auth


def load_auth(path: Path | str) -> Auth:
    """Read the Secret manifest at `path` (YAML or JSON; `data` in base64, `stringData` as it is and first), or a mounted Secret (a
    folder with a file for each key).

    Raises `UsageError` for the file, `Terminal` for a key in it; both name the file.
    """
    subject = f"auth file {path}"
    if Path(path).is_dir():
        return Auth.from_secret({one.name: one.read_bytes() for one in Path(path).iterdir() if one.is_file()}, subject)
    return Auth.from_secret(secret_data(_read(Path(path), subject), subject), subject)


def secret_data(manifest: Mapping[str, Any], subject: str) -> dict[str, bytes | str]:
    """The decoded keys of a v1 Secret object; raises `UsageError` when it is none."""
    if manifest.get("apiVersion") != "v1" or manifest.get("kind") != "Secret":
        raise UsageError(
            "is not a v1 Secret", subject=subject, hint="It needs `apiVersion: v1`, `kind: Secret` and `stringData`"
        )
    decoded: dict[str, bytes | str] = {}
    for key, value in _texts(manifest, "data", subject).items():
        try:
            decoded[key] = base64.b64decode("".join(value.split()), validate=True)
        except binascii.Error:
            raise UsageError(
                f"key {key} of data is not base64", subject=subject, hint="Plain text goes under stringData"
            ) from None
    return decoded | _texts(manifest, "stringData", subject)


def _texts(manifest: Mapping[str, Any], field: str, subject: str) -> dict[str, str]:
    block = manifest.get(field) or {}
    if not isinstance(block, dict):
        raise UsageError(f"{field} is not a map of keys to texts", subject=subject)
    for key, value in block.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise UsageError(f"key {key} of {field} is not a text", subject=subject, hint="Put its value in quotes")
    return block


def _read(path: Path, subject: str) -> Mapping[str, Any]:
    try:
        documents = [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document is not None]
    except OSError as error:
        raise UsageError(f"can't be read: {error.strerror}", subject=subject) from error
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8 text", subject=subject) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise UsageError(f"is not YAML{where}", subject=subject) from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise UsageError("must hold exactly one object, a v1 Secret", subject=subject)
    return documents[0]
