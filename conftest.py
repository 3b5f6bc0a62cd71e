"""Loads the plugin that turns `spec(...)` markers into the conformance table."""

from hypothesis import settings

pytest_plugins = ["tests.support.conformance"]

# A machine that is busy with something else must not fail a property for being slow.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")
