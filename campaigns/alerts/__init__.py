"""Which fault raises which alert: the catalogue of `make alerts`."""
