"""The product's scenarios, played with the real program against a cluster that a kubeconfig names, or the simulator."""
