"""What systemd/ says, read as systemd does."""

import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "systemd" / "gpu-autoscaler.service"
FOLDER = "/etc/gpu-autoscaler"


def lines(name: str) -> list[str]:
    """The values of the setting *name* in order."""
    said = UNIT.read_text(encoding="utf-8").splitlines()
    return [value.strip() for key, equals, value in (line.partition("=") for line in said) if equals and key == name]


def variables(folder: str) -> dict[str, str]:
    """The variables that the unit sets itself, with *folder* for systemd's folder of credentials."""
    pairs = [pair for said in lines("Environment") for pair in shlex.split(said.replace("%d", folder))]
    return dict(pair.split("=", 1) for pair in pairs)


def credentials() -> dict[str, str]:
    """Where each credential comes from, by its name."""
    return dict(said.split(":", 1) for said in lines("LoadCredential"))


def environment_file() -> dict[str, str]:
    """The variables that the example of the environment file sets."""
    said = (ROOT / "systemd" / "environment").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in said if line and not line.startswith("#"))
