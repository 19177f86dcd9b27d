"""A GPU cloud and its cluster as a pure state machine, and the ports that let the reconciler run on it."""
