"""Statistics over samples, and how a result is printed and kept."""

import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from demo.configs import ROOT
from demo.stack import binary

RESULTS = ROOT / "benchmarks" / "results"


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least *share* (ratio 0-1) of all samples do not exceed (nearest rank).

    Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("no samples")
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def spread(samples: Sequence[float], digits: int = 3) -> dict[str, float | int]:
    """Return n, p50, p95 and max of *samples*; only n when there are none."""
    if not samples:
        return {"n": 0}
    figures = {"p50": median(samples), "p95": percentile(samples, 0.95), "max": max(samples)}
    return {"n": len(samples), **{name: round(value, digits) for name, value in figures.items()}}


def machine() -> dict[str, str | int]:
    """Return what the figures depend on, without naming the machine."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count() or 0,
        "load_1m": round(os.getloadavg()[0]),
        "nice": os.nice(0),  # below 0 we went before what else the machine did
        "python": platform.python_version(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def version_of(program: str) -> str:
    """Return the version that *program* (prometheus, alertmanager) names."""
    done = subprocess.run([binary(program), "--version"], capture_output=True, text=True, timeout=30, check=False)
    words = (done.stdout or done.stderr).split()
    return words[words.index("version") + 1] if "version" in words else "unknown"


def commit() -> str:
    """Return the commit that was measured, marked when the checkout differs from it."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "receiver", "simulator", "rules")
    return f"{head} with changes" if head and changed else head or "unknown"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=30, check=False, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def keep(name: str, result: Mapping[str, Any], now: datetime) -> Path:
    """Write *result* with machine, commit and date to benchmarks/results/NAME.json; return the file."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    whole = {"name": name, "date": now.isoformat(timespec="seconds"), "commit": commit(), "machine": machine()}
    path.write_text(json.dumps({**whole, **result}, indent=1) + "\n", encoding="utf-8")
    return path
