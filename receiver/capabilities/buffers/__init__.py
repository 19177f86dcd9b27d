"""CapacityBuffers: room that is kept free beside all demand."""
