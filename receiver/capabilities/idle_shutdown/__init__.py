"""Idle shutdown: idle workloads whose owners consented are scaled to zero."""
