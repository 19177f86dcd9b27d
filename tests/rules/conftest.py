"""Tests that depend on the version of Prometheus or Alertmanager run with each that is there."""

from tests.rules.versions import each_alertmanager as each_alertmanager
from tests.rules.versions import each_pair as each_pair
from tests.rules.versions import each_prometheus as each_prometheus
