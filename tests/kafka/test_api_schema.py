"""The API holds to its own OpenAPI document, whatever is sent: requests are made up from the document, valid ones and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headrace.kafka.settings import KafkaSettings
from headrace.standalone.openapi import document
from tests.support.controllers import RunningController

METHODS = ("get", "post", "put", "patch", "delete")
# The kinds share one set of handlers: three with different traits stand for all (many fields, two versions, no status).
KINDS = ("v1/triggers", "v1beta1/kafkachannels", "v1/configmaps")
OPERATIONS = [
    (path, method, mode)
    for path, operations in document()["paths"].items()
    for method in METHODS
    for mode in GenerationMode
    if method in operations and any(kind in path.replace("namespaces/{namespace}/", "") for kind in KINDS)
    # Without body and query only a path could be wrong, and a name that is not legal is one that is not there.
    if mode is GenerationMode.POSITIVE or method != "get"
]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def api(kafka: KafkaSettings) -> Iterator[Any]:
    running = RunningController(kafka)
    yield schemathesis.openapi.from_url(f"{running.url}/openapi/v3.json")
    running.stop()


@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_every_answer_is_one_that_the_document_names(api: Any, path: str, method: str, mode: GenerationMode) -> None:
    @given(case=api[path][method.upper()].as_strategy(generation_mode=mode))
    @settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def answer(case: Any) -> None:
        case.validate_response(case.call(timeout=30), checks=CHECKS)

    answer()
