"""Reads of Civo, Kubernetes and the store that only the doctor needs."""
