"""The control plane as pure functions: observed resources in, plan, status and contract out."""
