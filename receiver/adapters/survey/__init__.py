"""What only the doctor asks: reads of Civo, Kubernetes and the store that no step needs."""
