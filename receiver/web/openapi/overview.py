"""Schemas of what one screen shows: everything in short, in one answer."""

from receiver.config.model import Mode
from receiver.core.model.actions import Change
from receiver.core.model.model import Source
from receiver.web.openapi.shapes import (
    Schema,
    count,
    fields,
    listed,
    maybe,
    moment,
    number,
    one_of,
    shared,
    text,
    yes_or_no,
)

LOOP = {
    "status": one_of(("ok", "stale")),
    "loop": one_of(("starting", "leading", "waiting", "stopped")),
    "beat_age_seconds": number(minimum=0),
    "fresh_seconds": number("up to which age a beat counts", minimum=0),
    "steps": count(),
    "errors": count(),
    "good_step_age_seconds": maybe(number("since the last good step; null where it does not lead", minimum=0)),
    "good_step_within_seconds": number("from which age on steps count as failing", minimum=0),
    "leader": maybe(text("the process that leads, as far as this one knows")),
    "term": maybe(count("how many leaders there have been; null where one process is alone with its file")),
}
SOURCE = fields(
    "Whether a source answered in the last step.",
    {"source": one_of(Source), "up": yes_or_no(), "at": maybe(moment()), "detail": text(), "configured": yes_or_no()},
    {"since": maybe(moment("since when it is so"))},
)
LINE = fields(
    "A decision in a line.",
    {
        "id": count(),
        "at": moment(),
        "pool": text(),
        "pool_name": text(),
        "from": count("nodes before"),
        "to": count("nodes wanted"),
        "verdict": one_of(Change),
        "because": text(),
    },
)
RIGHTS = fields(
    "What Kubernetes says of the rights that a removal needs; null in observe mode and without a cluster.",
    {
        "lacking": maybe(listed(text(), "those that are refused, such as `patch nodes`; null while it never answered")),
        "since": moment("since when it is so"),
        "asked_at": maybe(moment("null: it was never asked")),
        "detail": text("why the last question got no answer, or empty"),
        "said": text(),
        "holds_growth": yes_or_no("whether pools may not grow for it"),
    },
)
STATUS = fields(
    "The whole installation in short.",
    {
        "at": maybe(moment("the last step")),
        "mode": one_of(Mode),
        "version": text(),
        "loop": fields("How the loop is doing; steps and errors count since the process started.", LOOP),
        "budget": shared("Budget"),
        "pools": listed(shared("Pool"), "without their single nodes"),
        "sources": listed(shared("SourceState")),
        "rights": maybe(shared("Rights")),
        "waiting_total": maybe(count("pods that wait for GPUs")),
        "fits_nowhere": count("those that no pool can hold"),
        "decisions": listed(shared("DecisionLine"), "the newest five"),
        "messages": fields(
            "Where messages to people go.",
            {
                "to": listed(text(), "destinations without their secrets; none: messages go to the log"),
                "undelivered": count("at most 20 are counted"),
                "failing": count("of these: tried without success; the others wait, to come as one message"),
                "last_error": maybe(text("of the oldest that failed")),
            },
        ),
    },
)
SCHEMAS: dict[str, Schema] = {"Status": STATUS, "SourceState": SOURCE, "Rights": RIGHTS, "DecisionLine": LINE}
