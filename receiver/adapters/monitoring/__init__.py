"""Prometheus and Alertmanager behind their ports, and the history that Prometheus keeps."""
