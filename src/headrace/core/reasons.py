"""Every reason that a condition of an object may have, and every condition type: one place, listed in `docs/status.md`.

A reason is one CamelCase word (knative/specs, error signalling). A condition that is False always has one.
"""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """What a condition is about. Names are Knative's where it has one (reference: its Broker, Trigger, channel and policy types)."""

    READY = "Ready"
    # Broker and KafkaChannel
    ADDRESSABLE = "Addressable"
    DATA_PLANE_AVAILABLE = "DataPlaneAvailable"
    TOPIC_READY = "TopicReady"
    CONFIG_MAP_UPDATED = "ConfigMapUpdated"
    CONFIG_PARSED = "ConfigParsed"
    PROBE_SUCCEEDED = "ProbeSucceeded"
    EVENT_POLICIES_READY = "EventPoliciesReady"
    SUBSCRIBERS = "Subscribers"
    # Trigger
    BROKER_READY = "BrokerReady"
    SUBSCRIPTION_READY = "SubscriptionReady"
    DEPENDENCY_READY = "DependencyReady"
    SUBSCRIBER_RESOLVED = "SubscriberResolved"
    DEAD_LETTER_SINK_RESOLVED = "DeadLetterSinkResolved"
    OIDC_IDENTITY_CREATED = "OIDCIdentityCreated"
    # Subscription
    REFERENCES_RESOLVED = "ReferencesResolved"
    ADDED_TO_CHANNEL = "AddedToChannel"
    CHANNEL_READY = "ChannelReady"
    # Channel
    BACKING_CHANNEL_READY = "BackingChannelReady"
    # EventPolicy
    AUTHENTICATION_ENABLED = "AuthenticationEnabled"
    SUBJECTS_RESOLVED = "SubjectsResolved"
    # what the data plane tells; informational
    POSITION_LOST = "PositionLost"
    GROUP_HAS_MEMBERS = "GroupHasMembers"
    LAGGING = "Lagging"
    STALLED = "Stalled"
    PAUSED = "Paused"


class Reason(StrEnum):
    """Why a condition is as it is."""

    DELETING = "Deleting"
    INVALID_OBJECT = "InvalidObject"
    # configuration
    CONFIG_MAP_NOT_FOUND = "ConfigMapNotFound"
    CONFIG_NOT_LOOKED_UP = "ConfigNotLookedUp"
    CONFIG_INVALID = "ConfigInvalid"
    BOOTSTRAP_SERVERS_MISSING = "BootstrapServersMissing"
    SECRET_NOT_FOUND = "SecretNotFound"
    SECRET_NOT_LOOKED_UP = "SecretNotLookedUp"
    SECRET_INVALID = "SecretInvalid"
    # topic
    TOPIC_NOT_CHECKED = "TopicNotChecked"
    TOPIC_CREATING = "TopicCreating"
    TOPIC_CREATION_FAILED = "TopicCreationFailed"
    EXTERNAL_TOPIC_NOT_FOUND = "ExternalTopicNotFound"
    KAFKA_UNREACHABLE = "KafkaUnreachable"
    # ingress
    NO_RECEIVER = "NoReceiver"
    RECEIVER_NOT_UP_TO_DATE = "ReceiverNotUpToDate"
    INGRESS_CLOSED = "IngressClosed"
    NOT_IN_CONTRACT = "NotInContract"
    CONTRACT_NOT_WRITTEN = "ContractNotWritten"
    ADDRESS_CONFLICT = "AddressConflict"
    INGRESS_NOT_READY = "IngressNotReady"
    # subscriptions
    POSITIONS_NOT_WRITTEN = "PositionsNotWritten"
    POSITIONS_FAILED = "PositionsFailed"
    NO_DISPATCHER = "NoDispatcher"
    QUERY_STARTING = "QueryStarting"
    INSUFFICIENT_SLOTS = "InsufficientSlots"
    DISPATCHER_PROBLEM = "DispatcherProblem"
    WORKERS_NOT_UP_TO_DATE = "WorkersNotUpToDate"
    EGRESS_CLOSED = "EgressClosed"
    SUBSCRIBERS_NOT_READY = "SubscribersNotReady"
    # references
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    REFERENCE_NOT_LOOKED_UP = "ReferenceNotLookedUp"
    REFERENCE_NOT_ADDRESSABLE = "ReferenceNotAddressable"
    ADDRESS_NOT_FOUND = "AddressNotFound"
    URI_NOT_ABSOLUTE = "UriNotAbsolute"
    DEAD_LETTER_SINK_NOT_CONFIGURED = "DeadLetterSinkNotConfigured"
    DEAD_LETTER_SINK_NOT_RESOLVED = "DeadLetterSinkNotResolved"
    BROKER_DOES_NOT_EXIST = "BrokerDoesNotExist"
    BROKER_NOT_READY = "BrokerNotReady"
    DEPENDENCY_DOES_NOT_EXIST = "DependencyDoesNotExist"
    DEPENDENCY_NOT_READY = "DependencyNotReady"
    CHANNEL_REFERENCE_FAILED = "ChannelReferenceFailed"
    SUBSCRIBER_RESOLVE_FAILED = "SubscriberResolveFailed"
    REPLY_RESOLVE_FAILED = "ReplyResolveFailed"
    DEAD_LETTER_SINK_RESOLVE_FAILED = "DeadLetterSinkResolveFailed"
    RESOLVING = "Resolving"
    PHYSICAL_CHANNEL_SYNC_FAILED = "PhysicalChannelSyncFailed"
    SUBSCRIPTION_NOT_MARKED_READY_BY_CHANNEL = "SubscriptionNotMarkedReadyByChannel"
    CHANNEL_NOT_READY = "ChannelNotReady"
    CHANNEL_TEMPLATE_NOT_SUPPORTED = "ChannelTemplateNotSupported"
    BACKING_CHANNEL_NOT_READY = "BackingChannelNotReady"
    BACKING_CHANNEL_NOT_OWNED = "BackingChannelNotOwned"
    BACKING_CHANNEL_CREATION_FAILED = "BackingChannelCreationFailed"
    # identity
    OIDC_DISABLED = "OIDCDisabled"
    SERVICE_ACCOUNT_NOT_CREATED = "ServiceAccountNotCreated"
    DEFAULT_AUTHORIZATION_MODE = "DefaultAuthorizationMode"
    EVENT_POLICIES_NOT_READY = "EventPoliciesNotReady"
    SUBJECTS_NOT_RESOLVED = "SubjectsNotResolved"
    # what the data plane tells
    RETENTION_OR_LOSS = "RetentionOrLoss"
    FOREIGN_MEMBERS = "ForeignMembers"
    CATCHING_UP = "CatchingUp"
    SUBSCRIBER_FAILING = "SubscriberFailing"
    NO_TOKEN = "NoToken"
    PAUSED_BY_USER = "PausedByUser"
    # notices
    TOPIC_LEFT_BEHIND = "TopicLeftBehind"
    GROUP_LEFT_BEHIND = "GroupLeftBehind"
