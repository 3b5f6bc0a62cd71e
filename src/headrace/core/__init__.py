"""The rules, pure: no I/O, no clock of its own, no threads."""
