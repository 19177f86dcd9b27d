"""Measurements of the whole line and of its parts; docs/benchmarks.md says what they mean."""
