"""The threads that make steps happen: the loop, the pod watcher, the store opener and the warm-up.

They say when a step runs, never what it does.
"""
