"""Repair: sick nodes are cordoned, and removed once their work ends."""
