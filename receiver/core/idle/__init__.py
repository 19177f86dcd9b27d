"""Idle workloads whose owners consented to scale them to zero: which they are, when to warn and when to act."""
