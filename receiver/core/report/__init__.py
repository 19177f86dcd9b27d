"""A month of GPU work as a report: what was bought, who used it, what lay idle, what would have cost less."""
