"""What a step does beside growing and shrinking pools: labels and taints, holds and stops, windows, usage.

Each chore is guarded for itself: a bug in one leaves the others and every pool served. Nothing here decides sizes.
"""
