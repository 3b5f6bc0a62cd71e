"""The OpenAPI v3 document of the REST API, made from the kinds."""

from __future__ import annotations

from functools import cache
from typing import Any

from headrace import __version__
from headrace.core.resources.registry import KINDS, KindInfo
from headrace.core.resources.schema import full_schema

Json = dict[str, Any]
_NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}
_NAMESPACE = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_STATUS: Json = {
    "type": "object",
    "required": ["kind", "apiVersion", "status"],
    "properties": {
        "kind": {"type": "string", "enum": ["Status"]},
        "apiVersion": {"type": "string", "enum": ["v1"]},
        "metadata": {"type": "object"},
        "status": {"type": "string", "enum": ["Success", "Failure"]},
        "message": {"type": "string"},
        "reason": {"type": "string"},
        "code": {"type": "integer"},
        "details": {"type": "object"},
    },
}


@cache
def document() -> Json:
    """The whole document. Do not change it."""
    paths: Json = {}
    schemas: Json = {"v1.Status": _STATUS}
    for info in KINDS:
        for version in info.versions:
            schemas[_schema_name(info, version)] = _schema(info, version)
            paths |= _paths(info, version)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Headrace", "version": __version__, "description": "Brokers, channels and their subscriptions."},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def index() -> Json:
    """`/openapi/v3`: where the document of each group and version is (one serves all)."""
    versions = {f"{'apis/' if info.group else 'api/'}{info.api_version(v)}" for info in KINDS for v in info.versions}
    return {"paths": {name: {"serverRelativeURL": "/openapi/v3.json"} for name in sorted(versions)}}


def _schema_name(info: KindInfo, version: str) -> str:
    return ".".join(filter(None, (info.group, version, info.kind)))


def _schema(info: KindInfo, version: str) -> Json:
    schema = full_schema(info.model)
    schema["properties"]["apiVersion"] = {"type": "string", "enum": [info.api_version(version)]}
    schema["properties"]["kind"] = {"type": "string", "enum": [info.kind]}
    schema["x-kubernetes-group-version-kind"] = [{"group": info.group, "version": version, "kind": info.kind}]
    return schema


def _paths(info: KindInfo, version: str) -> Json:
    root = f"/apis/{info.api_version(version)}" if info.group else f"/api/{version}"
    ref = {"$ref": f"#/components/schemas/{_schema_name(info, version)}"}
    listed = {
        "type": "object",
        "required": ["kind", "apiVersion", "metadata", "items"],
        "properties": {
            "kind": {"type": "string"},
            "apiVersion": {"type": "string"},
            "metadata": {"type": "object"},
            "items": {"type": "array", "items": ref},
        },
    }
    read = {
        "get": _operation(
            f"list {info.plural}", [_query("labelSelector"), _query("fieldSelector")], {200: listed}, errors=(400,)
        )
    }
    namespace = [_path_parameter("namespace", _NAMESPACE)]
    one = [*namespace, _path_parameter("name", _NAME)]
    base = f"{root}/namespaces/{{namespace}}/{info.plural}"
    paths = {
        f"{root}/{info.plural}": read,
        base: {
            "parameters": namespace,
            **read,
            "post": _writing(f"create a {info.singular}", ref, 201, (400, 409, 413, 422, 503)),
        },
        f"{base}/{{name}}": {
            "parameters": one,
            "get": _operation(f"read a {info.singular}", [], {200: ref}, errors=(404,)),
            "put": _writing(f"replace a {info.singular}", ref, 200, (400, 404, 409, 413, 422, 503)),
            "patch": _patching(f"change a {info.singular}", ref),
            "delete": _operation(
                f"delete a {info.singular}", [_dry_run()], {200: {"type": "object"}}, errors=(400, 404, 409, 503)
            ),
        },
    }
    if info.has_status:
        paths[f"{base}/{{name}}/status"] = {
            "parameters": one,
            "get": _operation(f"read the status of a {info.singular}", [], {200: ref}, errors=(404,)),
            "put": _writing(f"replace the status of a {info.singular}", ref, 200, (400, 404, 409, 413, 422, 503)),
            "patch": _patching(f"change the status of a {info.singular}", ref),
        }
    return paths


def _operation(summary: str, parameters: list[Json], answers: dict[int, Json], errors: tuple[int, ...]) -> Json:
    responses: Json = {
        str(code): {"description": "done", "content": {"application/json": {"schema": schema}}}
        for code, schema in answers.items()
    }
    for code in errors:
        schema = {"$ref": "#/components/schemas/v1.Status"}
        responses[str(code)] = {"description": _ERRORS[code], "content": {"application/json": {"schema": schema}}}
    return {"summary": summary, "parameters": parameters, "responses": responses}


def _writing(summary: str, ref: Json, code: int, errors: tuple[int, ...]) -> Json:
    body = {"required": True, "content": {"application/json": {"schema": ref}}}
    return {**_operation(summary, [_dry_run()], {code: ref}, errors), "requestBody": body}


def _patching(summary: str, ref: Json) -> Json:
    body = {"required": True, "content": {"application/merge-patch+json": {"schema": {"type": "object"}}}}
    return {**_operation(summary, [_dry_run()], {200: ref}, (400, 404, 409, 413, 415, 422, 503)), "requestBody": body}


def _path_parameter(name: str, schema: Json) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(name: str) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}


def _dry_run() -> Json:
    return {"name": "dryRun", "in": "query", "required": False, "schema": {"type": "string", "enum": ["All"]}}


_ERRORS = {
    400: "the request can't be understood",
    404: "no such object",
    409: "the object exists, or has changed meanwhile",
    413: "the body is too large",
    415: "only JSON merge patches are taken",
    422: "the object breaks rules; `details.causes` lists all of them",
    503: "Kafka did not take the change",
}
