"""Civo's HTTP API behind the port `Cloud`: pools, instances, sizes, charges and its errors as values."""
