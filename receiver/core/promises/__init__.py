"""Promises: when waiting work will probably start, from how long past nodes took and what the work waits for."""
