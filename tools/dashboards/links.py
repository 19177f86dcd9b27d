"""Where the dashboards lead: to each other, to the receiver's pages and to the runbooks."""

from typing import Any

from tools.dashboards.model import TAG
from tools.dashboards.variables import typed

JSON = dict[str, Any]

# Placeholders like those of runbook_url in rules/: people type where theirs are, or replace them in the files.
VARIABLES = (
    typed("receiver", "Autoscaler's URL", "http://127.0.0.1:8080"),
    typed("runbooks", "Runbooks' URL", "https://civo-gpu-autoscaler.example/docs/runbooks"),
)


def of_dashboard(page: str, page_title: str) -> list[JSON]:
    """Return a dashboard's links: the others, the receiver's *page* and the runbooks."""
    others = {
        "type": "dashboards",
        "title": "GPU autoscaler",
        "tags": [TAG],
        "asDropdown": False,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }
    return [others, _elsewhere(page_title, f"${{receiver}}{page}"), _elsewhere("Runbooks", "${runbooks}")]


def _elsewhere(title: str, url: str) -> JSON:
    return {
        "type": "link",
        "title": title,
        "url": url,
        "icon": "doc",
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
        "targetBlank": True,
        "tooltip": "",
    }


def opened(title: str, url: str) -> JSON:
    """Return a link that a value of a panel offers."""
    return {"title": title, "url": url, "targetBlank": True}


POOL_PAGE = opened("Pool ${__field.labels.pool_name} in the autoscaler", "${receiver}/pools/${__field.labels.pool}")
