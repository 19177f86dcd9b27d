"""Random worlds with faults and crashes against the invariants. See tests/README.md."""
