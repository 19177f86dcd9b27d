"""The Kubernetes API behind the port `Cluster`: nodes, pods, queues, gangs, and the few writes that we make."""
