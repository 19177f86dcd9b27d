"""Three replicas on one PostgreSQL whose leader dies, freezes or is cut off. See tests/README.md."""
