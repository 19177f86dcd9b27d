"""Simulated regions, and what the doctor is told of them."""

from tests.doctor.conftest import start as start
from tests.doctor.conftest import told as told
