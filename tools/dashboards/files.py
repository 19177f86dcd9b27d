"""The files of ``dashboards/``, which Grafana imports."""

import json
from pathlib import Path

from tools.dashboards import cost, pools, queues, receiver, utilization

FOLDER = Path(__file__).resolve().parents[2] / "dashboards"


def generated() -> dict[Path, str | None]:
    """Return every file as it should be; None for one that is of no dashboard."""
    made = [module.dashboard() for module in (pools, utilization, cost, queues, receiver)]
    texts = {FOLDER / f"{d.uid}.json": json.dumps(d.json(), indent=2, ensure_ascii=False) + "\n" for d in made}
    return {**dict.fromkeys(FOLDER.glob("*.json")), **texts}
