"""The threads that make steps happen: the loop, its wake-ups, the store opener and the warm-up.

They say when a step runs, never what it does.
"""
