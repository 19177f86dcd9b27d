"""Which fault raises which alert: the catalogue behind docs/alerts.md."""
