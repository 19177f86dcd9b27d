"""Whether a node may be taken at all: nobody spoke for it."""

from receiver.core.model.model import CordonedBy, Node
from receiver.core.scaling.assign import floor_gives_way
from receiver.core.scaling.guardrails import Case


def is_kept(node: Node, case: Case) -> bool:
    """True while a workload's wish keeps *node*; at the budget's stop line no wish does."""
    return node.kept(case.now) and not floor_gives_way(case.wanted)


def is_ours_to_take(node: Node, case: Case) -> bool:
    """True when nobody spoke for *node*: by a cordon, an annotation, a pod that must not be cut off, a refusal."""
    return nobody_speaks_for(node) and not was_refused(node, case)


def nobody_speaks_for(node: Node) -> bool:
    """True without a cordon of somebody else's, an annotation, a pod that must not be cut off or one that would be
    lost."""
    return node.cordoned_by is not CordonedBy.SOMEONE and not node.protected and not node.hosts and not node.kept_by


def why_not_ours(node: Node) -> str:
    """Who or what speaks for *node*, in a sentence; empty when nobody does."""
    said = (
        ("somebody else cordoned it", node.cordoned_by is CordonedBy.SOMEONE),
        ("it is protected", node.protected),
        (f"it hosts {', '.join(node.hosts)}", bool(node.hosts)),
        ("; ".join(node.kept_by), bool(node.kept_by)),
    )
    return "; ".join(what for what, speaks in said if speaks)


def was_refused(node: Node, case: Case) -> bool:
    """True while a removal of this very node backs off: something there may not be evicted."""
    backoff = case.state.removal_backoff
    return backoff is not None and node.instance in backoff.instances and case.now < backoff.until
