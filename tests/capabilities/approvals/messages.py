"""What is told when people are asked before a change, and when somebody has answered, case by case."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from receiver.capabilities.approvals.notices import answered, asked
from receiver.core.model.model import Facts
from receiver.core.model.overrides import Answer, Asks, Question
from receiver.core.model.policy import Approval, Unanswered
from receiver.core.notices.notice import Notice
from receiver.core.scaling.assign import assign
from tests.core.builders import MINUTE, NOW, a_pod
from tests.core.notices.of_people import word
from tests.core.notices.scene import H100, L40S, NUMBER, POLICY, busy, idle, known, pool_of
from tests.core.notices.scene import training as jobs

TITLE = "Questions and answers"
ASKING = replace(POLICY, pools=(replace(L40S, approval=Approval(growth_above_usd_per_hour=Decimal(2))), H100))


def _question(asks: Asks = Asks.REMOVAL, **changes: Any) -> Question:
    """Whether two idle nodes may go, which is due in four minutes."""
    given: dict[str, Any] = {
        "id": f"l40s-{asks}-5d9c01ab33fe",
        "pool": L40S.id,
        "asks": asks,
        "from_count": 3,
        "to_count": 1,
        "asked_at": NOW,
        "due_at": NOW + 4 * MINUTE,
        "wait_ends": NOW + 10 * MINUTE,
        "expires_at": NOW + 9 * MINUTE,
        "unanswered": Unanswered.HOLD,
        "instances": ("i-l40s-2", "i-l40s-3"),
        "nodes": ("l40s-2", "l40s-3"),
        "usd_per_hour": Decimal("2.58"),
    }
    return Question(**{**given, **changes})


def _asked(question: Question, found: Facts) -> Notice:
    return asked(question, ASKING, assign(found, ASKING).pools[L40S.id], NUMBER)


def _removal_of(*nodes: str) -> Question:
    """Whether *nodes* may go, which they do at 12:08 without an answer."""
    return _question(
        nodes=nodes,
        instances=tuple(f"i-{node}" for node in nodes),
        usd_per_hour=len(nodes) * Decimal("1.29"),
        unanswered=Unanswered.PROCEED,
        wait_ends=NOW + 8 * MINUTE,
    )


def asks_to_grow(unanswered: Unanswered = Unanswered.PROCEED, **found: Any) -> Notice:
    question = _question(
        Asks.GROWTH,
        from_count=1,
        to_count=3,
        due_at=NOW,
        expires_at=NOW + timedelta(hours=1),
        unanswered=unanswered,
        instances=(),
        nodes=(),
    )
    return _asked(question, known(pool_of(busy()), **{"waiting": jobs(), **found}))


IDLE = known(pool_of(busy(), idle(), idle("l40s-3")))
CASES: Mapping[str, Callable[[], Notice]] = {
    "asks_to_remove": lambda: _asked(_question(), IDLE),
    "asks_to_remove_one": lambda: _asked(_removal_of("l40s-2"), IDLE),
    "asks_to_remove_many": lambda: _asked(_removal_of(*(f"l40s-{n}" for n in range(2, 7))), IDLE),
    "asks_to_empty": lambda: _asked(_question(Asks.EMPTYING), IDLE),
    "asks_to_grow": asks_to_grow,
    "asks_to_grow_for_many": lambda: asks_to_grow(Unanswered.HOLD, waiting=[a_pod(f"p{n}") for n in range(5)]),
    "approved": lambda: answered(replace(_question(), answer=Answer.APPROVE, who="ada"), None, ASKING),
    "rejected": lambda: answered(replace(_question(), answer=Answer.REJECT, who="ada"), None, ASKING),
    "answered_with_a_snooze": lambda: answered(
        replace(_question(), answer=Answer.SNOOZE_1H, who="ada"), word(), ASKING
    ),
}
