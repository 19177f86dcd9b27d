"""Promises: how many of the promised starts of waiting work came true."""
