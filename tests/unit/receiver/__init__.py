"""Units of the receiver."""
