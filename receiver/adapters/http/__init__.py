"""What all HTTP adapters share: sessions with time limits, timestamps, JSON read item by item."""
