"""The queries of the dashboards, asked of a played demo of one cluster and of two, beside the HTTP API."""
