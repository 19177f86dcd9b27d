"""What people and programs read of fixed worlds, written to files, to compare before and after a change."""
