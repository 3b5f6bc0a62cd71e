"""Producing and consuming by hand: lines of text to records, and records to lines of text."""
