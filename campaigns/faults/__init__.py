"""Random worlds with faults and crashes against the invariants. See docs/invariants.md."""
