"""The HTML pages, rendered on the server from what the store holds. They decide nothing."""
