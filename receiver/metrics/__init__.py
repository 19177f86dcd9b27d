"""What /metrics says, read from the store when it is scraped. It decides nothing."""
