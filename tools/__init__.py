"""What the Makefile needs before the project's own environment exists: standard library only."""
