"""The clients of the outside: the only modules that import requests, kubernetes, prometheus_api_client and the like."""
