"""What a request of the API says: which object, which options, which body. Each function raises `Failure` for what can't be understood."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from headrace.core.resources.registry import by_plural
from headrace.standalone.failures import Failure, bad_request
from headrace.standalone.placing import Target

Json = dict[str, Any]
_LARGEST_BODY = 3 * 1024 * 1024
_MERGE_PATCH = "application/merge-patch+json"


def target_of(request: Request) -> Target:
    """The kind, namespace and name that the path names."""
    path = request.path_params
    info = by_plural(path.get("group", ""), path["version"], path["plural"])
    if info is None:
        where = "/".join(filter(None, (path.get("group", ""), path["version"])))
        raise Failure(404, "NotFound", f'{where} has no resource "{path["plural"]}"; /apis/{where} lists what it has')
    return Target(info, path["version"], path.get("namespace", ""), path.get("name", ""))


def with_status(target: Target) -> Target:
    """The target itself, if its kind has a status."""
    if not target.info.has_status:
        raise Failure(404, "NotFound", f"{target.info.plural} have no status")
    return target


async def json_body(request: Request, *, empty_ok: bool = False) -> Json:
    """The body as a JSON object; `empty_ok`: no body is an empty one."""
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _LARGEST_BODY:
            raise Failure(413, "RequestEntityTooLarge", f"the body may have at most {_LARGEST_BODY} bytes")
    if empty_ok and not raw.strip():
        return {}
    try:
        body = json.loads(raw, parse_constant=_no_constant)
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise bad_request("the body must be a JSON object")
    return body


async def patch_body(request: Request) -> Json:
    """The body of a PATCH: a JSON merge patch."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _MERGE_PATCH:
        raise Failure(415, "UnsupportedMediaType", f"patches of type {kind or '(none)'} are not supported, only {_MERGE_PATCH}")
    return await json_body(request)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def is_dry_run(request: Request) -> bool:
    """Whether `dryRun=All` is asked for."""
    given = request.query_params.getlist("dryRun")
    if any(value not in ("", "All") for value in given):
        raise bad_request("dryRun must be All")
    return "All" in given


def flag(request: Request, name: str) -> bool:
    """A query parameter that is true or false."""
    value = request.query_params.get(name, "").lower()
    if value not in ("", "1", "0", "true", "false"):
        raise bad_request(f"{name} must be true or false")
    return value in ("1", "true")


def number(text: str, what: str) -> int:
    """A whole number; 0 for none."""
    if text == "":
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise bad_request(f"{what} must be a whole number")
    return int(text)
