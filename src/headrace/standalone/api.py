"""The REST API of the controller, shaped like the Kubernetes one, as an ASGI application.

    /apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME[/status]     /api/v1/namespaces/NS/configmaps/NAME
    /api/v1/namespaces/NS/serviceaccounts/NAME/token           /.well-known/openid-configuration

Errors are `Status` objects. What is not there yet is refused: server-side apply, strategic merge patch, JSON patch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.base.clock import Clock
from headrace.base.errors import HeadraceError, Retriable
from headrace.base.log import get_logger
from headrace.core.resources.admission import convert
from headrace.core.resources.registry import KindInfo
from headrace.standalone import discovery, tableform
from headrace.standalone.failures import Failure, bad_request
from headrace.standalone.issuer import DISCOVERY, KEYS, TokenIssuer
from headrace.standalone.openapi import document, index
from headrace.standalone.ownersonly import OwnersOnly
from headrace.standalone.placing import Target
from headrace.standalone.registry import Registry
from headrace.standalone.requests import flag, is_dry_run, json_body, number, patch_body, target_of, with_status
from headrace.standalone.selectors import field_matcher, label_matcher
from headrace.standalone.store import Store
from headrace.standalone.watching import Watch, Watches

log = get_logger(__name__)
Json = dict[str, Any]
Handler = Callable[[Request], Awaitable[Response]]
_WATCH_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Backend:
    """What the API serves. `figures`: what the data plane last said, as JSON. `missing`: what the controller lacks to be ready.

    `issuer`: gives tokens.
    """

    store: Store
    registry: Registry
    watches: Watches
    clock: Clock
    figures: Callable[[], Json]
    missing: Callable[[], list[str]]
    issuer: TokenIssuer


def build_api(backend: Backend) -> Starlette:
    """The application."""
    api = _Api(backend)
    objects = ["/api/{version}", "/apis/{group}/{version}"]
    routes = [
        _route("/version", GET=_fixed(discovery.version)),
        _route("/healthz", GET=_fixed(lambda: {"status": "ok"})),
        _route("/readyz", GET=api.ready),
        _route("/figures", GET=_fixed(backend.figures)),
        _route(DISCOVERY, GET=_fixed(backend.issuer.discovery)),
        _route(KEYS, GET=_fixed(backend.issuer.keys)),
        _route("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", POST=api.token),
        _route("/openapi/v3.json", GET=_fixed(document)),
        _route("/openapi/v3", GET=_fixed(index)),
        _route("/api", GET=_fixed(discovery.core_versions)),
        _route("/apis", GET=_fixed(discovery.group_list)),
        _route("/api/{version}", GET=api.resources),
        _route("/apis/{group}", GET=api.group),
        _route("/apis/{group}/{version}", GET=api.resources),
    ]
    for root in objects:
        one = f"{root}/namespaces/{{namespace}}/{{plural}}/{{name}}"
        routes += [
            _route(f"{root}/{{plural}}", GET=api.list),
            _route(f"{root}/namespaces/{{namespace}}/{{plural}}", GET=api.list, POST=api.create),
            _route(one, GET=api.get, PUT=api.replace, PATCH=api.patch, DELETE=api.delete),
            _route(f"{one}/status", GET=api.get_status, PUT=api.replace_status, PATCH=api.patch_status),
        ]
    return Starlette(
        routes=routes, exception_handlers={HTTPException: _http_error}, middleware=[Middleware(OwnersOnly, refused=_failed)]
    )


class _Api:
    """The handlers; what may block runs in a thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._registry = backend.registry

    async def ready(self, request: Request) -> Response:
        missing = self._backend.missing()
        return JSONResponse({"status": "unavailable" if missing else "ok", "missing": missing}, 503 if missing else 200)

    async def group(self, request: Request) -> Response:
        return JSONResponse(discovery.group(request.path_params["group"]))

    async def resources(self, request: Request) -> Response:
        return JSONResponse(discovery.resource_list(request.path_params.get("group", ""), request.path_params["version"]))

    async def list(self, request: Request) -> Response:
        target = target_of(request)
        labels = label_matcher(request.query_params.get("labelSelector", ""))
        fields = field_matcher(request.query_params.get("fieldSelector", ""))
        as_table = tableform.wanted(request.headers.get("accept", ""))
        if flag(request, "watch"):
            return self._watch(request, target, lambda obj: labels(obj) and fields(obj), as_table)
        found, version = self._backend.store.select(target.info.group, target.info.kind, target.namespace or None)
        objects = [convert(obj, target.version) for obj in found if labels(obj) and fields(obj)]
        if as_table:
            return JSONResponse(tableform.table(target.info, objects, str(version), self._backend.clock.now()))
        api_version = target.info.api_version(target.version)
        return JSONResponse(
            {
                "kind": f"{target.info.kind}List",
                "apiVersion": api_version,
                "metadata": {"resourceVersion": str(version)},
                "items": objects,
            }
        )

    def _watch(self, request: Request, target: Target, selected: Callable[[Any], bool], as_table: bool) -> Response:
        since = request.query_params.get("resourceVersion", "")
        watch = Watch(
            target=target,
            since=None if since in ("", "0") else number(since, "resourceVersion"),
            selected=selected,
            shape=partial(self._row, target.info) if as_table else lambda obj: obj,
            seconds=float(number(request.query_params.get("timeoutSeconds", ""), "timeoutSeconds") or _WATCH_SECONDS),
            bookmarks=flag(request, "allowWatchBookmarks"),
        )
        return StreamingResponse(self._backend.watches.open(watch), media_type="application/json")

    def _row(self, info: KindInfo, obj: Json) -> Json:
        return tableform.table(info, [obj], obj["metadata"]["resourceVersion"], self._backend.clock.now())

    async def create(self, request: Request) -> Response:
        target, body = target_of(request), await json_body(request)
        dry = is_dry_run(request)
        made = await run_in_threadpool(lambda: self._registry.create(target, body, dry_run=dry))
        return JSONResponse(made, 201)

    async def get(self, request: Request) -> Response:
        target = target_of(request)
        obj = self._registry.get(target)
        if tableform.wanted(request.headers.get("accept", "")):
            return JSONResponse(self._row(target.info, obj))
        return JSONResponse(obj)

    async def replace(self, request: Request) -> Response:
        return await self._change(request, self._registry.replace, await json_body(request))

    async def patch(self, request: Request) -> Response:
        return await self._change(request, self._registry.patch, await patch_body(request))

    async def get_status(self, request: Request) -> Response:
        return JSONResponse(self._registry.get(with_status(target_of(request))))

    async def replace_status(self, request: Request) -> Response:
        with_status(target_of(request))
        return await self._change(request, self._registry.replace_status, await json_body(request))

    async def patch_status(self, request: Request) -> Response:
        with_status(target_of(request))
        return await self._change(request, self._registry.patch_status, await patch_body(request))

    async def delete(self, request: Request) -> Response:
        target = target_of(request)
        options = await json_body(request, empty_ok=True)
        if not isinstance(options.get("preconditions") or {}, dict):
            raise bad_request("preconditions must be an object")
        dry = is_dry_run(request) or "All" in (options.get("dryRun") or ())
        going = await run_in_threadpool(lambda: self._registry.delete(target, options, dry_run=dry))
        if going is not None:
            return JSONResponse(going)
        details = {"name": target.name, "group": target.info.group, "kind": target.info.plural}
        return JSONResponse({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})

    async def token(self, request: Request) -> Response:
        path, body = request.path_params, await json_body(request)
        given = await run_in_threadpool(lambda: self._backend.issuer.answer(path["namespace"], path["name"], body))
        return JSONResponse(given, 201, headers={"cache-control": "no-store"})

    async def _change(self, request: Request, verb: Callable[..., Json], body: Json) -> Response:
        target, dry = target_of(request), is_dry_run(request)
        return JSONResponse(await run_in_threadpool(lambda: verb(target, body, dry_run=dry)))


def _route(path: str, **handlers: Handler) -> Route:
    """One path with a handler per method; other methods get 405 with `Allow`."""
    allowed = ", ".join(sorted({*handlers, *({"HEAD"} if "GET" in handlers else ())}))

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        handler = handlers.get(method)
        if handler is None:
            raise HTTPException(405, headers={"Allow": allowed})
        return await _guarded(handler, request)

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"]
    return Route(path, endpoint, methods=methods)


async def _guarded(handler: Handler, request: Request) -> Response:
    try:
        return await handler(request)
    except Failure as failure:
        return _failed(failure)
    except Retriable as error:
        return _failed(
            Failure(503, "ServiceUnavailable", str(error), details={"retryAfterSeconds": max(1, round(error.after))})
        )
    except HeadraceError as error:
        return _failed(Failure(500, "InternalError", str(error)))
    except ClientDisconnect:
        return Response(status_code=499)
    except HTTPException:
        raise
    except Exception:
        log.exception("A request to the API failed", method=request.method, path=request.url.path)
        return _failed(Failure(500, "InternalError", "the request could not be carried out; the controller's log says why"))


async def _http_error(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    if code == 405:
        failure = Failure(405, "MethodNotAllowed", f"{request.method} is not possible on {request.url.path}")
    else:
        failure = Failure(404, "NotFound", f"there is nothing at {request.url.path}; /apis lists what is served")
    response = _failed(failure)
    response.headers.update((error.headers or {}) if isinstance(error, HTTPException) else {})
    return response


def _failed(failure: Failure) -> Response:
    after = failure.details.get("retryAfterSeconds")
    return JSONResponse(failure.status(), failure.code, headers={"Retry-After": str(after)} if after else None)


def _fixed(value: Callable[[], Json]) -> Handler:
    async def handler(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(value))

    return handler
