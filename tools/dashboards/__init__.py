"""The Grafana dashboards as code: `make generate` writes dashboards/*.json."""
