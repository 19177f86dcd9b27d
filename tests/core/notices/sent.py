"""The requests that destinations get for a message: Slack's blocks and events are ours, the others are Apprise's."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import responses

from receiver.adapters.messages import Outbox
from receiver.core.notices.notice import Notice
from receiver.core.notices.routing import Format, Route
from simulator.store import MemoryStore
from tests.adapters.messages.destinations import NOW, SLACK, SLACK_API, TELEGRAM, TELEGRAM_API
from tests.clocks import FixedClock
from tests.core.notices.cases import CASES, PAGES

WIRE = Path(__file__).parent / "wire"
SHOWN = "out_of_stock"  # the case whose requests are kept for every format
IN_BLOCKS = ("grew", "held_by_the_budget", "out_of_stock", "budget_stop", "asks_to_grow", "stuck")
LINKS = replace(PAGES, cluster_name="prod-lon1", pool_names={"l40s-id": "l40s"})
EVENTS = "https://events.example.com/hooks/SECRET-of-the-events"


def sent(notice: Notice, destination: str, api: str, wanted: Format | None = None) -> dict[str, Any]:
    """Deliver *notice* to *destination*, whose address is *api*; return the one document that it gets."""
    with responses.RequestsMock() as wire:
        wire.post(api, json={"ok": True, "result": {}}) if api == TELEGRAM_API else wire.post(api, body="ok")
        store = MemoryStore()
        store.say(notice, NOW)
        routes: Mapping[str, Route] = {"chat": Route(format=wanted)}
        Outbox(store, [f"chat={destination}"], FixedClock(NOW), links=LINKS, routes=routes).deliver_due(NOW)
        (call,) = wire.calls
    found: dict[str, Any] = json.loads(call.request.body or "")
    for attachment in found.get("attachments", ()):
        attachment.pop("ts")  # when Apprise made it, by the machine's clock
    return found


def every_request() -> dict[str, str]:
    """Every file below ``wire`` and what belongs into it."""
    shown = CASES[SHOWN]()
    found = {
        "telegram.json": sent(shown, TELEGRAM, TELEGRAM_API),
        "slack.as_text.json": sent(shown, SLACK, SLACK_API, Format.TEXT),
        "cloudevent.json": sent(shown, EVENTS, EVENTS, Format.CLOUDEVENTS),
        **{f"slack.{case}.json": sent(CASES[case](), SLACK, SLACK_API) for case in IN_BLOCKS},
    }
    return {
        name: json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name, document in found.items()
    }


def generated() -> dict[Path, str | None]:
    """Return the files of ``wire`` as they should be; None for one that is of no case."""
    return {**dict.fromkeys(WIRE.iterdir()), **{WIRE / name: text for name, text in every_request().items()}}
