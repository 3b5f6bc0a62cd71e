"""Which ingress gets a request."""

from __future__ import annotations

import pytest

from headrace.receiver.table import Ingress, IngressTable, host_of


def ingress(uid: str, path: str = "", host: str = "", closed: str = "") -> Ingress:
    return Ingress(uid, path, host, closed=closed, plain=not closed)


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("a.b", "a.b"),
        ("A.B:80", "a.b"),
        ("a.b.", "a.b"),
        ("a.b.:8080", "a.b"),
        ("[::1]:80", "[::1]"),
        ("[::1]", "[::1]"),
        ("a:port", "a:port"),
        ("", ""),
    ],
)
def test_port_case_and_a_dot_at_the_end_do_not_count(authority: str, host: str) -> None:
    assert host_of(authority) == host


@pytest.mark.parametrize("written", ["/ns/a", "/ns/a/"])
def test_a_path_is_found_with_and_without_a_slash_at_its_end(written: str) -> None:
    table = IngressTable([ingress("a", written)])
    assert table.by_path["/ns/a"].uid == table.by_path["/ns/a/"].uid == "a"
    assert "/ns/a//" not in table.by_path


def test_the_root_may_be_a_path() -> None:
    assert IngressTable([ingress("a", "/")]).by_path["/"].uid == "a"


def test_an_ingress_without_host_is_found_by_none() -> None:
    table = IngressTable([ingress("a", "/ns/a"), ingress("b", host="b.svc")])
    assert table.at_host("") is None
    assert table.at_host("other") is None
    found = table.at_host("B.svc:8080")
    assert found is not None
    assert found.uid == "b"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ingress("a", "/x"), ingress("b", "/x/")),
        (ingress("a", host="x"), ingress("b", "/b", "X")),
        (ingress("a", "/x", "x"), ingress("b", "/x", "y")),
    ],
)
def test_of_two_with_one_address_the_second_is_closed(first: Ingress, second: Ingress) -> None:
    table = IngressTable([first, second])
    assert table.serving == ("a",)
    assert table.closed == {"b": "its address belongs to a"}
    assert not second.plain


def test_a_closed_ingress_keeps_its_address() -> None:
    table = IngressTable([ingress("a", "/x", closed="why")])
    assert table.by_path["/x"].closed == "why"
    assert table.serving == ()
