"""Tools of the Makefile, which run before the project's environment exists: standard library only."""
