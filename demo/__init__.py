"""The whole line on one machine: a simulated cloud and cluster, real Prometheus and Alertmanager, the autoscaler."""
