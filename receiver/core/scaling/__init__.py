"""From waiting pods and idle nodes to a decision per pool: assignment, packing, guardrails, plans.

Pure and deterministic: no clock, no network, no sentence that is sent. The reasons are values.
"""
