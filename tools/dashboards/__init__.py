"""The Grafana dashboards as code: `python -m tools.dashboards` writes dashboards/*.json."""
