from __future__ import annotations

from typing import Any

import pytest

from headrace.control.conditions import Verdict
from headrace.control.model import ObjectKey, Observed
from headrace.control.resolve import Target, resolve
from headrace.control.settings import Settings
from headrace.control.world import ModelCache, World
from headrace.core.reasons import Reason
from headrace.core.resources.base import read
from headrace.core.resources.duck import Destination

Json = dict[str, Any]
URL = "http://x.ns.example/base/path"
ADDRESSES = [{"name": "http", "url": "http://a/"}, {"name": "https", "url": "https://a/", "CACerts": "pem", "audience": "aud"}]


def world(status: Json | None = None, looked_up: frozenset[ObjectKey] | None = None) -> World:
    key = ObjectKey("example.com", "Thing", "ns", "x")
    objects = {} if status is None else {key: {"status": status}}
    return World(Observed(0.0, Settings(None), objects, looked_up), ModelCache())


def ref(**more: str) -> Json:
    return {"ref": {"apiVersion": "example.com/v7", "kind": "Thing", "name": "x", **more}}


@pytest.mark.spec("CP-D1", "CP-D3", "CP-D4")
@pytest.mark.parametrize(
    ("status", "destination", "wanted"),
    [
        ({"address": {"url": URL}}, ref(), Target(URL)),
        ({"address": {"url": URL, "CACerts": "pem", "audience": "aud"}}, ref(), Target(URL, "pem", "aud")),
        ({"addresses": ADDRESSES, "address": {"url": URL}}, ref(), Target("http://a/")),
        ({"addresses": ADDRESSES}, ref(address="https"), Target("https://a/", "pem", "aud")),
        ({"addresses": ADDRESSES}, ref(address="ftp"), Reason.ADDRESS_NOT_FOUND),
        (
            {"addresses": ADDRESSES},
            {**ref(address="https"), "CACerts": "mine", "audience": "me"},
            Target("https://a/", "mine", "me"),
        ),
        ({"address": {"url": URL}}, {**ref(), "uri": "other?q=1"}, Target("http://x.ns.example/base/other?q=1")),
        ({"address": {"url": URL}}, {**ref(), "uri": "/root"}, Target("http://x.ns.example/root")),
        ({"address": {"url": URL + "/"}}, {**ref(), "uri": "leaf"}, Target("http://x.ns.example/base/path/leaf")),
        ({"address": {"url": URL}}, {**ref(), "uri": "../up"}, Target("http://x.ns.example/up")),
        ({}, ref(), Reason.REFERENCE_NOT_ADDRESSABLE),
        ({"address": {}}, ref(), Reason.REFERENCE_NOT_ADDRESSABLE),
        ({"address": {"url": "http:///path"}}, ref(), Reason.REFERENCE_NOT_ADDRESSABLE),
        ({"address": {"url": "gopher://x/"}}, ref(), Reason.URI_NOT_ABSOLUTE),
        (None, ref(), Reason.REFERENCE_NOT_FOUND),
        (None, ref(namespace="elsewhere"), Reason.REFERENCE_NOT_FOUND),
        (None, {"uri": "https://sink/"}, Target("https://sink/")),
        (None, {"uri": "https://sink/", "CACerts": "pem"}, Target("https://sink/", "pem")),
        (None, {"uri": "/relative"}, Reason.URI_NOT_ABSOLUTE),
        (None, {}, Reason.URI_NOT_ABSOLUTE),
    ],
)
def test_a_destination_is_this_target_or_says_why_not(status: Json | None, destination: Json, wanted: Target | Reason) -> None:
    found = resolve(world(status), read(Destination, destination), "ns")
    if isinstance(found, Verdict):
        assert (found.status, found.reason) == ("False", wanted)
        assert found.message
    else:
        assert found == wanted


@pytest.mark.spec("CP-D2")
def test_a_service_is_reached_by_its_name() -> None:
    service = read(Destination, {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}, "uri": "/in"})
    assert resolve(world(), service, "ns") == Target("http://s.ns.svc.cluster.local/in")


@pytest.mark.spec("CP-D2")
def test_a_service_with_certificates_is_reached_by_tls() -> None:
    service = read(Destination, {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}, "CACerts": "pem"})
    assert resolve(world(), service, "ns") == Target("https://s.ns.svc.cluster.local", "pem")


def test_where_services_can_be_looked_up_one_that_is_not_there_is_named() -> None:
    key = ObjectKey("", "Service", "ns", "s")
    service = read(Destination, {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}})
    found = resolve(world(looked_up=frozenset({key})), service, "ns")
    assert isinstance(found, Verdict)
    assert (found.status, found.reason) == ("False", Reason.REFERENCE_NOT_FOUND)


def test_what_was_not_looked_up_yet_is_asked_for() -> None:
    there = world(looked_up=frozenset())
    found = resolve(there, read(Destination, ref()), "ns")
    assert isinstance(found, Verdict)
    assert (found.status, found.reason) == ("Unknown", Reason.REFERENCE_NOT_LOOKED_UP)
    assert ObjectKey("example.com", "Thing", "ns", "x") in there.plan().references
