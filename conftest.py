"""Loads the plugin that turns `spec(...)` markers into the conformance table."""

pytest_plugins = ["tests.support.conformance"]
