"""What nodes cost: paid units, budgets, forecasts, Civo's charges, and whose the money was.

Decimal USD throughout. It decides nothing: what a budget forbids is a guardrail in `core.scaling`.
"""
