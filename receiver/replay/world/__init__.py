"""A GPU cloud and its Kubernetes cluster as a pure, deterministic state machine (no I/O, no clock of its own)."""
