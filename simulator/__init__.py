"""A Civo region and a Kubernetes cluster to try things on: HTTP faces over receiver.replay.world, with fault switches.

It is for the demo and for tests and is not part of the installed product. What it does where Civo is silent
is a switch of `receiver.replay.world.Behaviour`.
"""
