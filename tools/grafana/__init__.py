"""The dashboards as Grafana would draw them: `make pictures` draws a scenario, `render` what any Prometheus has."""
