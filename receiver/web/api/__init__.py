"""The JSON API below /api/v1. It reads the store; overrides, budgets and answers are the only writes."""
