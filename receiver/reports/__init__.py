"""Documents for readers: what a step publishes, and the report of a month as text, table and page."""
