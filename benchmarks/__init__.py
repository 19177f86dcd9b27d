"""Measurements of the whole line and of its parts; docs/evidence.md says what they mean."""
