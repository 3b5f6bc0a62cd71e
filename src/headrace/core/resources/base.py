"""What all kinds share: the strict model, metadata, conditions.

Models refuse unknown fields and wrong types; both come out as `FieldError`s with the path of the field. Field names are those of the
specification in camelCase; Python sees them in snake_case.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from headrace.core.resources.invalid import FieldError, Invalid, at, invalid_value, missing

Json = dict[str, Any]
M = TypeVar("M", bound="Model")


def _alias(name: str) -> str:
    """`retry_after_max` -> `retryAfterMax`; Knative writes `CACerts`; `not_` and `from_` are Python's keywords."""
    camel = to_camel(name.rstrip("_"))
    return "CACerts" if camel == "caCerts" else camel.replace("CaCerts", "CACerts")


class Model(BaseModel):
    """Part of an object. Frozen; unknown fields are forbidden; a number is not a string."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=_alias,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    def to_json(self) -> Json:
        """The JSON object, without fields that are not set."""
        return self.model_dump(exclude_none=True)


class OwnerReference(Model):
    """The object that this one belongs to, and is deleted with."""

    api_version: str
    """API version of the owner."""
    kind: str
    """Kind of the owner."""
    name: str
    """Name of the owner."""
    uid: str
    """UID of the owner."""
    controller: bool | None = None
    """Whether the owner is the one that manages this object."""
    block_owner_deletion: bool | None = None
    """Whether the owner can't be removed before this object."""


class ObjectMeta(Model):
    """Name, identity and labels of an object; server-set fields included."""

    name: str = ""
    """Name, unique among the objects of its kind in the namespace."""
    generate_name: str | None = None
    """Prefix of a name that the server makes up, when `name` is not given."""
    namespace: str | None = None
    """Namespace of the object."""
    labels: dict[str, str] | None = None
    """Keys and values to select objects by."""
    annotations: dict[str, str] | None = None
    """Further settings and notes, by key."""
    uid: str | None = None
    """Identity of this object in time: one made again under the same name has another. Set by the server."""
    resource_version: str | None = None
    """Changes with each write; a write that gives an old one is refused. Set by the server."""
    generation: int | None = None
    """Counts the changes of the spec. Set by the server."""
    creation_timestamp: str | None = None
    """When the object was made (RFC 3339). Set by the server."""
    deletion_timestamp: str | None = None
    """When its deletion was asked for (RFC 3339). Set by the server."""
    deletion_grace_period_seconds: int | None = None
    """Seconds between the request and the deletion. Set by the server."""
    finalizers: list[str] | None = None
    """Who still has work to do before the object may go."""
    owner_references: list[OwnerReference] | None = None
    """The objects that this one belongs to."""
    managed_fields: list[Json] | None = None
    """Who set which field (Kubernetes only). Set by the server."""
    self_link: str | None = None
    """Not used any more; accepted from old manifests."""


class Condition(Model):
    """One statement about the state of an object (knative/specs, error signalling)."""

    type: str
    """What the statement is about. Unique within an object."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    severity: Literal["", "Warning", "Info"] | None = None
    """Empty: an error when False. `Warning` and `Info` do not count for Ready."""
    last_transition_time: str | None = None
    """When `status` last changed (RFC 3339)."""
    reason: str | None = None
    """Why, in one CamelCase word. Always there when the status is False."""
    message: str | None = None
    """Why, for people."""


class Status(Model):
    """What every status has."""

    observed_generation: int | None = None
    """The `metadata.generation` that this status is about."""
    conditions: list[Condition] | None = None
    """The state, one statement per type; `Ready` sums them up."""
    annotations: dict[str, str] | None = None
    """Facts that are kept with the object: names of its topic and group, and so on."""


class Resource(Model):
    """A whole object. Subclasses say of which kind, and add `spec` and `status`."""

    api_version: str
    """Group and version, as `eventing.knative.dev/v1`."""
    kind: str
    """The kind of the object."""
    metadata: ObjectMeta = ObjectMeta()
    """Name and labels."""

    GROUP: ClassVar[str] = ""
    KIND: ClassVar[str] = ""
    SENSITIVE: ClassVar[bool] = False
    """Whether no value of it may appear in a message."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, empty if there are none."""
        return self.metadata.annotations or {}


def read(kind: type[M], raw: Any, *path: str | int) -> M:
    """`raw` as a model. Raises `Invalid` with every unknown, missing or wrongly typed field under `path`."""
    try:
        return kind.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Invalid(_field_errors(kind, error, path)) from None


def read_known(kind: type[M], raw: Any) -> M:
    """As `read`, but fields that this version does not know are left out: for objects that another server has accepted."""
    try:
        return kind.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        unknown = [item["loc"] for item in error.errors(include_url=False) if item["type"] == "extra_forbidden"]
        if not unknown:
            raise Invalid(_field_errors(kind, error, ())) from None
        return read(kind, _without(raw, unknown))


def without_nulls(value: Any) -> Any:
    """A JSON value with the null fields of its objects left out, as an API server prunes them."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _without(raw: Any, places: list[tuple[str | int, ...]]) -> Any:
    if any(not place for place in places):
        return raw
    if isinstance(raw, list):
        return [_without(item, [p[1:] for p in places if p[0] == index and len(p) > 1]) for index, item in enumerate(raw)]
    gone = {place[0] for place in places if len(place) == 1}
    return {
        key: _without(item, deeper) if (deeper := [p[1:] for p in places if p[0] == key and len(p) > 1]) else item
        for key, item in raw.items()
        if key not in gone
    }


def _field_errors(kind: type[BaseModel], error: ValidationError, path: tuple[str | int, ...]) -> Iterator[FieldError]:
    hidden = issubclass(kind, Resource) and kind.SENSITIVE
    for item in error.errors(include_url=False, include_context=True):
        shown = "(not shown)" if hidden else item["input"]
        place = tuple(part for part in item["loc"] if part != "[key]")
        where = at(*path, *place)
        match item["type"]:
            case "extra_forbidden":
                yield FieldError("unknown field(s)", (where,), _suggestion(kind, place))
            case "missing":
                yield missing(where)
            case "literal_error":
                yield invalid_value(shown, where, f"expected {item['ctx']['expected']}")
            case _:
                yield invalid_value(shown, where, _EXPECTED.get(item["type"], item["msg"]))


_EXPECTED = {
    "string_type": "expected a string (in YAML, quote it)",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "dict_type": "expected an object with string values",
    "model_type": "expected an object",
}


def _suggestion(kind: type[BaseModel], place: tuple[str | int, ...]) -> str:
    current: Any = kind
    for part in place[:-1]:
        if isinstance(part, int):
            continue
        current = _model_of(current, str(part))
        if current is None:
            return ""
    names = [field.alias or name for name, field in current.model_fields.items()]
    close = difflib.get_close_matches(str(place[-1]), names, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known fields: {', '.join(sorted(names))}" if names else "no fields are known here"


def _model_of(kind: type[BaseModel], alias: str) -> type[BaseModel] | None:
    for name, field in kind.model_fields.items():
        if (field.alias or name) == alias:
            return next((found for found in _types(field.annotation) if issubclass(found, BaseModel)), None)
    return None


def _types(annotation: Any) -> Iterator[type]:
    inner = get_args(annotation)
    if inner:
        for part in inner:
            yield from _types(part)
    elif isinstance(annotation, type):
        yield annotation
