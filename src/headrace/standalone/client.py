"""The REST API from the other side: what the command line asks of a controller."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from headrace.base.clock import Deadline
from headrace.base.errors import HeadraceError, Retriable, Terminal

Json = dict[str, Any]
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_TIMEOUT = httpx.Timeout(15.0, connect=3.0)


class Refused(HeadraceError):
    """The controller's answer to a request that it did not carry out: `code` and `reason` as in its `Status` object."""

    def __init__(self, code: int, reason: str, message: str, *, subject: str = "", hint: str = "") -> None:
        super().__init__(message, subject=subject, hint=hint)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One kind as the API serves it."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def names(self) -> set[str]:
        """Every word that a user may call it by, in lower case."""
        words = {self.plural, self.singular, self.kind.lower(), *self.short_names}
        return words | {f"{word}.{self.group}" for word in (self.plural, self.singular) if self.group}

    def path(self, namespace: str | None, name: str = "") -> str:
        """Path of the collection, or of one object."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class Client:
    """Talks to one controller. Every method raises `Retriable` when nobody answers and `Refused` when the answer is no."""

    def __init__(self, server: str, transport: httpx.BaseTransport | None = None) -> None:
        self.server = server.rstrip("/")
        # Loading the certificates of the system takes longer than most commands: only where they are needed.
        secure = self.server.startswith("https:")
        self._http = httpx.Client(base_url=self.server, timeout=_TIMEOUT, transport=transport, trust_env=False, verify=secure)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def types(self) -> list[ResourceType]:
        """All kinds that the controller serves, each version on its own, the preferred one first."""
        found = [self.request("GET", "/api/v1")]
        for group in self.request("GET", "/apis")["groups"]:
            found += [self.request("GET", f"/apis/{version['groupVersion']}") for version in group["versions"]]
        return [kind for listing in found for kind in _types(listing)]

    def get(self, kind: ResourceType, namespace: str, name: str) -> Json:
        return self.request("GET", kind.path(namespace, name))

    def select(self, kind: ResourceType, namespace: str | None, selector: str = "") -> Json:
        """The list object; all namespaces when `namespace` is None."""
        return self.request("GET", kind.path(namespace), params={"labelSelector": selector} if selector else {})

    def figures(self) -> Json:
        """What the data plane last said of itself: `receivers`, `workers`, `drivers` (`core.heartbeat`)."""
        return self.request("GET", "/figures")

    def token(self, namespace: str, account: str, audiences: list[str], seconds: int = 3600) -> Json:
        """A TokenRequest, answered by the controller's issuer: `status.token` is for the account, to be shown to the audiences."""
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/serviceaccounts/{quote(account, safe='')}/token"
        spec = {"audiences": audiences, "expirationSeconds": seconds}
        return self.request("POST", path, body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})

    def table(self, kind: ResourceType, namespace: str | None, name: str = "", selector: str = "") -> Json:
        """The list, or one object, as a `Table` object: columns and cells for people."""
        params = {"labelSelector": selector} if selector else {}
        return self.request("GET", kind.path(namespace, name), params=params, accept=_TABLE)

    def create(self, kind: ResourceType, namespace: str, obj: Json, *, dry_run: bool = False) -> Json:
        return self.request("POST", kind.path(namespace), body=obj, params=_dry(dry_run))

    def patch(self, kind: ResourceType, namespace: str, name: str, patch: Json, *, dry_run: bool = False) -> Json:
        """Apply a JSON merge patch."""
        return self.request(
            "PATCH", kind.path(namespace, name), body=patch, params=_dry(dry_run), content_type="application/merge-patch+json"
        )

    def delete(self, kind: ResourceType, namespace: str, name: str) -> Json:
        return self.request("DELETE", kind.path(namespace, name))

    def watch(
        self, kind: ResourceType, namespace: str | None, since: str, selector: str = "", deadline: Deadline | None = None
    ) -> Iterator[tuple[str, Json]]:
        """Changes after version `since` as (ADDED | MODIFIED | DELETED, object), until the deadline or for ever."""
        while deadline is None or not deadline.expired:
            params = {"watch": "true", "resourceVersion": since, "allowWatchBookmarks": "true"}
            params |= {"labelSelector": selector} if selector else {}
            if deadline is not None:
                params["timeoutSeconds"] = str(max(1, int(deadline.remaining() + 0.999)))
            for event, obj in self._watch_once(kind.path(namespace), params):
                since = obj["metadata"].get("resourceVersion", since)
                if event != "BOOKMARK":
                    yield event, obj

    def _watch_once(self, path: str, params: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
        with self._answering():
            with self._http.stream("GET", path, params=params, timeout=httpx.Timeout(None, connect=3.0)) as response:
                if response.status_code != 200:
                    response.read()
                    raise _refused(response)
                for line in response.iter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise Refused(status["code"], status["reason"], status["message"])
                    yield event["type"], event["object"]

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Json:
        """One request; the JSON answer."""
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"accept": accept} if body is None else {"accept": accept, "content-type": content_type}
        with self._answering():
            response = self._http.request(method, path, content=content, params=params, headers=headers)
        if response.status_code >= 400:
            raise _refused(response)
        try:
            answer: Json = response.json()
        except ValueError:
            raise self._stranger() from None
        return answer

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except httpx.InvalidURL as error:
            raise Terminal(f"not a URL: {error}", subject=f"server {self.server}") from None
        except httpx.UnsupportedProtocol:
            raise Terminal("not a URL with http:// or https://", subject=f"server {self.server}") from None
        except httpx.TransportError as error:
            raise Retriable(
                f"no controller answers ({type(error).__name__})",
                subject=f"server {self.server}",
                hint="Start one with `headrace up`, or name another with --server or HEADRACE_SERVER",
            ) from None

    def _stranger(self) -> Terminal:
        return Terminal("what answers there is not a Headrace controller", subject=f"server {self.server}")


def _refused(response: httpx.Response) -> HeadraceError:
    try:
        status = response.json()
        return Refused(int(status["code"]), str(status["reason"]), str(status["message"]))
    except (ValueError, KeyError, TypeError):
        return Terminal(
            f"answered {response.status_code} without a Status object: it is not a Headrace controller",
            subject=f"server {response.request.url.copy_with(path='/', query=None)}",
            hint="Name the controller with --server or HEADRACE_SERVER",
        )


def _types(listing: Mapping[str, Any]) -> Iterator[ResourceType]:
    group, slash, version = listing["groupVersion"].rpartition("/")
    names = {raw["name"] for raw in listing["resources"]}
    for raw in listing["resources"]:
        if "/" not in raw["name"]:
            yield ResourceType(
                group=group if slash else "",
                version=version,
                plural=raw["name"],
                kind=raw["kind"],
                singular=raw["singularName"],
                short_names=tuple(raw.get("shortNames", ())),
                categories=tuple(raw.get("categories", ())),
                has_status=f"{raw['name']}/status" in names,
            )


def _dry(wanted: bool) -> dict[str, str]:
    return {"dryRun": "All"} if wanted else {}
