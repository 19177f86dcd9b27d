"""The configuration file, the environment and prices, as settings and the core's policy.

Every mistake is reported at once, each with its path and a remedy.
"""

from receiver.config.environment import CivoAccess, Environment, civo_access, operator_token, reading_token, server_url
from receiver.config.model import Configuration, Mode
from receiver.config.pools import PoolSpec
from receiver.config.prices import Prices
from receiver.config.settings import FileSettings, Settings, load, load_file, load_text
from receiver.config.values import ConfigError, Mistake
from receiver.config.web import ReadAccess

__all__ = [
    "CivoAccess",
    "ConfigError",
    "Configuration",
    "Environment",
    "FileSettings",
    "Mistake",
    "Mode",
    "PoolSpec",
    "Prices",
    "ReadAccess",
    "Settings",
    "civo_access",
    "load",
    "load_file",
    "load_text",
    "operator_token",
    "reading_token",
    "server_url",
]
