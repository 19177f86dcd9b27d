"""The requests that Slack and Telegram get for a message, as Apprise's own plugins make them."""

import json
from pathlib import Path
from typing import Any

import responses

from receiver.adapters.messages import Outbox
from receiver.adapters.store import open_in_memory
from receiver.core.notices.notice import Notice
from tests.adapters.messages.destinations import NOW, SLACK, SLACK_API, TELEGRAM, TELEGRAM_API, FixedClock
from tests.core.notices.cases import CASES, PAGES

WIRE = Path(__file__).parent / "wire"
SHOWN = "out_of_stock"  # the case whose requests are kept


def sent(notice: Notice) -> dict[str, Any]:
    """Deliver *notice*; return the one document that each of the two gets."""
    with responses.RequestsMock() as wire:
        wire.post(SLACK_API, body="ok")
        wire.post(TELEGRAM_API, json={"ok": True, "result": {}})
        store = open_in_memory()
        store.say(notice, NOW)
        Outbox(store, [SLACK, TELEGRAM], FixedClock(NOW), links=PAGES).deliver_due(NOW)
        store.close()
        found = {call.request.url: json.loads(call.request.body or "") for call in wire.calls}
        assert len(found) == len(wire.calls), "a message was sent in parts"
    slack = found[SLACK_API]
    slack["attachments"][0].pop("ts")  # when Apprise made it, by the machine's clock
    return {"slack.json": slack, "telegram.json": found[TELEGRAM_API]}


def every_request() -> dict[str, str]:
    """Every file below ``wire`` and what belongs into it."""
    found = sent(CASES[SHOWN]())
    return {name: json.dumps(document, indent=2, sort_keys=True) + "\n" for name, document in found.items()}
