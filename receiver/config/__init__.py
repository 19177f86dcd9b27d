"""YAML and environment to settings to the core's policy; every mistake at once, each with its path and a remedy."""

from receiver.config.environment import Environment, operator_token, reading_token, server_url
from receiver.config.mistakes import ConfigError, Mistake
from receiver.config.model import Configuration, Mode, PoolSpec, ReadAccess
from receiver.config.prices import Prices
from receiver.config.settings import FileSettings, Settings, load, load_file, load_text

__all__ = [
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
    "load",
    "load_file",
    "load_text",
    "operator_token",
    "reading_token",
    "server_url",
]
