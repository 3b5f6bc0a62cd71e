"""The identity that a Trigger or Subscription sends under, when authentication is on: a ServiceAccount of its own."""

from __future__ import annotations

import json

from headrace.control.conditions import TRUE, Verdict, false, true, unknown
from headrace.control.model import CreateObject, ObjectKey
from headrace.control.naming import service_account
from headrace.control.world import Json, World, has_finalizer, key_of, uid_of
from headrace.core.reasons import Reason
from headrace.core.resources.kinds import Kind


def identity(world: World, model: Kind) -> tuple[Json, Verdict]:
    """The `auth` field of the status (empty while the feature is off), and whether the identity is there."""
    if not world.settings.features.authentication_oidc:
        return {}, true(Reason.OIDC_DISABLED, "the feature authentication-oidc is switched off")
    key = key_of(model)
    name = service_account(key.name, key.group, key.kind)
    auth = {"auth": {"serviceAccountName": name}}
    if not world.settings.own_accounts:
        return auth, TRUE
    account = ObjectKey("", "ServiceAccount", key.namespace, name)
    if world.look(account) is not None:
        return auth, TRUE
    if not world.is_looked_up(account):
        return auth, unknown(Reason.REFERENCE_NOT_LOOKED_UP, f"{account} was not looked up yet")
    create = CreateObject(account, json.dumps(_manifest(model, account), sort_keys=True))
    if has_finalizer(model):
        world.step(key, create)
    failure = world.failure(create)
    if failure is not None:
        return auth, false(Reason.SERVICE_ACCOUNT_NOT_CREATED, f"{account}: {failure}")
    return auth, unknown(Reason.SERVICE_ACCOUNT_NOT_CREATED, f"{account} is being created")


def owner_reference(model: Kind) -> Json:
    """How an object that we make names the one it belongs to."""
    return {
        "apiVersion": model.api_version,
        "kind": model.KIND,
        "name": model.metadata.name,
        "uid": uid_of(model),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _manifest(model: Kind, account: ObjectKey) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "labels": {"eventing.knative.dev/oidc": "enabled"},
            "ownerReferences": [owner_reference(model)],
        },
    }
