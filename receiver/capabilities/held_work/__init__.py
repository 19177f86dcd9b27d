"""Held work: which waiting workloads get no node now, why, from when on they might, and at what price."""
