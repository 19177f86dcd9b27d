"""Idle workloads that consented to be scaled to zero: who they are, when to warn and when to act."""
