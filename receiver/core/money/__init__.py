"""What nodes cost, in Decimal USD: paid units, budgets, forecasts, Civo's charges, and whose the money was."""
