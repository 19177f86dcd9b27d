"""Plant one small bug at a time and see which test notices: `python -m tools.mutants [WORDS]`."""
