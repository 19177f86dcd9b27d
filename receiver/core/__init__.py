"""The pure core: values in, values out. No clock, network, database or environment."""
