"""Rules and decisions in plain words, the same for log, chat, page and command line."""

from collections.abc import Collection

from receiver.core.model.actions import Decision, Verdict

# What a source of size says before its own sentence.
WANTED = {"standby": "to keep ready: ", "headroom": "for what comes next: ", "floor": "the pool's least size: "}
SPEAKS_UP = (Verdict.HOLDS, Verdict.LIMITS)
# What a rule means to somebody who does not know its name; docs/guardrails.md has each under its name.
PLAIN = {
    "sources_answer": "a source of facts does not answer",
    "nodes_may_be_removed": "no node could be removed again",
    "price_is_known": "its price is not known",
    "spend_is_known": "nobody knows what the month has cost",
    "within_budget": "the budget does not cover it",
    "within_maximum": "it is at its maximum",
    "within_limits": "the limits over all pools are reached",
    "not_frozen": "an alert stops every change",
    "not_silenced": "a silence in Alertmanager pauses it",
    "not_paused": "somebody paused it",
    "growth_is_not_paused": "an alert stops growth",
    "removal_is_not_snoozed": "somebody snoozed removals",
    "above_the_floor": "it is at its minimum",
    "approved": "it waits for an answer",
    "not_backing_off": "it waits after a failure",
    "not_undone_by_others": "somebody else keeps turning our changes back",
    "provisioning_works": "its last nodes never became usable",
    "cooled_down": "it changed a moment ago",
    "one_change_at_a_time": "another change of it is under way",
    "gangs_whole": "pods that start together do not all get room",
    "internal_error": "its decision failed with an internal error",
    "gang_is_complete": "pods that start together do not all exist yet",
}


def in_plain_words(rule: str) -> str:
    """What *rule* means to somebody who does not know its name."""
    return PLAIN.get(rule, rule.replace("_", " "))


def why(decision: Decision, going: Collection[str] | None = None) -> str:
    """The deciding reason and what wanted the change, in plain words; of a removal for the nodes *going* (names) alone,
    where not all that the decision names went."""
    wanted = [(r.rule, _of_those(going, r.detail, decision)) for r in decision.reasons if r.verdict is Verdict.WANTS]
    held = [r for r in decision.reasons if r.verdict in SPEAKS_UP]
    said = [f"{WANTED.get(rule, '')}{detail}" for rule, detail in wanted if detail]
    said += [f"{in_plain_words(r.rule)} ({r.detail})" for r in held]
    if not said:
        said = [r.detail for r in decision.reasons if r.verdict is Verdict.NOTES and r.detail][-1:]
    return "; ".join(said) or "nothing wanted a change"


def _of_those(going: Collection[str] | None, detail: str, decision: Decision) -> str:
    """*detail* with no other nodes before its colon than those *going*; empty where none of them do."""
    named, colon, because = detail.partition(": ")
    names = named.split(", ")
    known = {n["name"] for n in decision.evidence.get("nodes", ())}  # of a large pool not all
    if going is None or not colon or known.isdisjoint(names) or any(" " in name for name in names):
        return detail
    left = [name for name in names if name in going]
    return f"{', '.join(left)}: {because}" if left else ""
