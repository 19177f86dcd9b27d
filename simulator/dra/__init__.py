"""Dynamic Resource Allocation in a world: devices, the drivers that serve them, and the claims of pods."""
