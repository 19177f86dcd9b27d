"""What /metrics says, read from the store when it is scraped: one module per group of metric families.

Nothing here is kept in memory between scrapes except counters of this very process. It decides nothing.
"""
