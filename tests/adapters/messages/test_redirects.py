"""A destination that redirects gets an error, whatever its class: the message is neither lost nor sent elsewhere."""

import re

import pytest
import responses

from receiver.adapters.messages import opened
from receiver.core.notices.grouping import Message
from receiver.core.notices.routing import Format, Route
from tests.adapters.messages.destinations import SLACK, TELEGRAM

pytestmark = pytest.mark.filterwarnings(
    # Apprise's mail plugin imports a module that Python 3.13 dropped; it brings its own where there is none.
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)
TEXT = Route(format=Format.TEXT)
EVENTS = Route(format=Format.CLOUDEVENTS)
ELSEWHERE = "https://elsewhere.example.com/"
MESSAGE = Message(title="GPU pool l40s: 1 -> 3 nodes", text="Approve: https://gpu.example.com/answer/secret")
DESTINATIONS = {  # by what they are, with the route of their name
    "Slack blocks": (SLACK, Route()),
    "Slack text": (SLACK, TEXT),
    "CloudEvents": ("https://events.example.com/in", EVENTS),
    "Telegram": (TELEGRAM, Route()),
    "JSON": ("json://hooks.example.com/in", Route()),
    "JSON whose URL asks for redirects": ("json://hooks.example.com/in?redirect=yes", Route()),
    "XML": ("xml://hooks.example.com/in", Route()),
    "form": ("form://hooks.example.com/in", Route()),
    "Apprise API": ("apprise://notify.example.com/a-token-of-an-api", Route()),
    "ntfy": ("ntfy://ntfy.example.com/gpu", Route()),
    "Gotify": ("gotify://gotify.example.com/Aabcdefghijklmn", Route()),
    "Mattermost": ("mmost://chat.example.com/3ccdd113474722377935511fc85d3dd4", Route()),
    "Discord": ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", Route()),
    "Teams": ("workflows://example.com/643e8a2c-1bd4/abcdefghijkl", Route()),
    "PagerDuty": ("pagerduty://A1BRTD4JDaaa@TIiajkdnlazkcOXrIdevi7FQ", Route()),
}


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("kind", DESTINATIONS)
def test_no_class_of_destination_follows_a_redirect(kind: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apprise.plugins.base.NotifyBase.throttle", lambda *_, **__: None)
    url, route = DESTINATIONS[kind]
    [destination] = opened([f"there={url}"], routes={"there": route})
    assert destination.problem == ""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as wire:
        for method in (responses.GET, responses.POST, responses.PUT):
            wire.add(method, ELSEWHERE, json={"ok": True})
        moved = {"Location": ELSEWHERE}
        for method in (responses.POST, responses.PUT):
            wire.add(method, re.compile(r"https?://(?!elsewhere)"), status=status, headers=moved)
        error = destination.send(MESSAGE)
        assert [call.request.url for call in wire.calls if str(call.request.url).startswith(ELSEWHERE)] == []
        assert len(wire.calls) == 1
    assert error
