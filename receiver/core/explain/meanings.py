"""What each rule means, in one plain sentence; docs/guardrails.md has the whole of it under the same name."""

from collections.abc import Mapping

GUIDE = "guardrails.md"  # below docs/, with the rule's name as the anchor

MEANINGS: Mapping[str, str] = {
    # guardrails, in the order in which they are asked
    "sources_answer": "No change without eyes: the sources that this change needs must answer.",
    "nodes_may_be_removed": "Nothing is bought that the cluster would not let us remove again.",
    "price_is_known": "A pool whose price nobody knows does not grow: unknown is never taken for 0.",
    "spend_is_known": "Under a budget nothing is bought while nobody can tell what the month has cost.",
    "within_budget": "Every budget that a new node touches must cover its first paid hour.",
    "within_maximum": "The pool never has more nodes than its maximum, an open window, a ceiling or a pin allows.",
    "within_limits": "All pools together stay within the limits on GPUs, purchases and removals an hour.",
    "not_frozen": "An alert with action freeze stops every change.",
    "not_silenced": "A silence in Alertmanager that names the pool pauses it.",
    "not_paused": "A person's pause stops every change.",
    "growth_is_not_paused": "An alert with action pause_scale_up stops growth.",
    "removal_is_not_snoozed": "A person's snooze keeps every node that is not dead.",
    "above_the_floor": "The pool does not shrink below its minimum.",
    "not_backing_off": "What failed is not tried again before its back-off ends.",
    "not_undone_by_others": "What somebody else turned back three times in a day is left alone for a day.",
    "provisioning_works": "While nodes of the pool do not come up, no others are bought.",
    "cooled_down": "A pool that has just changed is left alone for its cooldown.",
    "approved": "Where the policy asks for it, a person is asked before nodes go and before growth that costs much.",
    "one_change_at_a_time": "A change under way is finished before another begins.",
    # in place of all others
    "internal_error": "A bug stopped the decision for this pool, so the pool keeps its size until the next step.",
    # what wants a size
    "demand": "GPU pods wait that fit this pool, and neither a free GPU nor a node on its way serves them.",
    "floor": "The pool has fewer nodes than its minimum.",
    "standby": "Fewer spare nodes are empty than the pool should keep.",
    "headroom": "Fewer GPUs are free than are usually asked for next, by what came in the last minutes.",
    "dead_nodes": "Nodes cost money and serve nobody: they never came up, or broke and stayed so.",
    "override": "A person's word for a while: pin, floor, ceiling, pause or snooze.",
    "silence": "A silence in Alertmanager that names the pool is in force.",
    "question": "People are asked whether the pool may change, or have answered.",
    "evict_after": "A window allows fewer nodes, and the grace that it gives running work is over or runs.",
    "idle_nodes": "Nodes without a GPU pod have been idle for long enough and may go now.",
    "consolidation": "The pods of busy nodes consented to be moved, and fit on other nodes.",
    # what is only noted
    "gang_is_complete": "Pods of a gang do not exist yet, so no node would help it.",
    "gangs_whole": "A gang gets all the nodes it needs at once, or none.",
    "nothing_wanted": "Nothing asks for another size.",
    "keep_until": "A workload asked that its node stays for a while.",
    "scale_up": "An alert asks to look for growth; how much is worked out from the pods that wait.",
    "scale_down": "An alert asks to look for nodes that may go.",
    "hold": "An alert says that busy nodes should stay where they are.",
    "fallback": "GPU activity is not known everywhere, so pod counts decide.",
}


def meaning(rule: str) -> str:
    """Return the sentence of *rule*, empty for one that this version does not have (any more)."""
    return MEANINGS.get(rule, "")
