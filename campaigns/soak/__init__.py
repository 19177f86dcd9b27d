"""A burn-in: the real receiver for hours under random work and faults, and whether anything grows without bound."""
