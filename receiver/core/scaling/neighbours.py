"""Which pods may share a node: required anti-affinity, affinity and topology spread over `kubernetes.io/hostname`.

The scheduler's rules (PodAffinityTerm and TopologySpreadConstraint v1 core) over the GPU pods that are known: those on
nodes, and those that were given room in this step. Pods without GPUs are not seen, so a rule about them is open.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from receiver.core.model.model import Facts
from receiver.core.model.pods import HostRule, Pod, Requirement, Together
from receiver.core.scaling.demand import meets
from receiver.core.scaling.failures import blame
from receiver.core.scaling.terminations import leaving_soon

Selection = tuple[
    tuple[tuple[str, str], ...], tuple[tuple[Requirement, ...], ...]
]  # a pod's node selector and required node affinity
Host = object  # an instance id; a new node is a host of its own
NONE: Mapping[int, int] = {}


def covers(rule: HostRule, pod: Pod) -> bool:
    """True when *pod* is one of those that *rule* is about."""
    if rule.namespaces is not None and pod.namespace not in rule.namespaces:
        return False
    return all(meets(pod.labels, requirement) for requirement in rule.selector)


def most_on_a_host(pod: Pod) -> int | None:
    """How many pods like *pod* an empty new node takes by its own rules (None: as many as fit)."""
    limits = [
        1 if rule.together is Together.NEVER else rule.max_skew
        for rule in pod.scheduling.host_rules
        if (rule.together is Together.NEVER or (rule.together is Together.EVENLY and rule.starts_at_zero))
        and covers(rule, pod)
    ]
    return min(limits, default=None)


class Neighbours:
    """The pods on each host as far as a rule is about them. Rules are numbered: equal ones are one."""

    def __init__(self, rules: Iterable[HostRule], labels: Mapping[str, Mapping[str, str]]) -> None:
        """Keep count for *rules*; *labels* are those of a new node, by pool id."""
        self._rules = list(dict.fromkeys(rules))
        self._numbers = {rule: number for number, rule in enumerate(self._rules)}
        self._of_pools = labels
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []  # rules without a label that a pod must have
        for number, rule in enumerate(self._rules):
            first = next((r for r in rule.selector if r.operator == "In"), None)
            if first is None:
                self._others.append(number)
                continue
            for value in first.values:
                self._by_label.setdefault((first.key, value), []).append(number)
        self._covering: dict[tuple[str, str, str], tuple[int, ...]] = {}
        self._here: dict[Host, dict[int, int]] = {}  # pods that a rule covers
        self._apart: dict[Host, dict[int, int]] = {}  # pods that keep those away which a rule covers
        self._everywhere: dict[int, int] = {}
        self._hosts: dict[Host, Mapping[str, str]] = {}  # the labels of each
        self._spreads: dict[int, dict[Selection, dict[Host, int]]] = {}  # by rule
        self._trail: list[tuple[Host, Pod, bool]] = []

    @classmethod
    def of(
        cls, facts: Facts, labels: Mapping[str, Mapping[str, str]], aside: Collection[str] = ()
    ) -> "Neighbours | None":
        """Return the neighbours on the nodes of *facts*; None where no pod has a rule, as in most clusters. Those in
        pools that are set *aside* are unknown."""
        rules = [rule for pod in _every(facts) if pod.scheduling.host_rules for rule in pod.scheduling.host_rules]
        if not rules:
            return None
        neighbours = cls(rules, labels)
        for state in facts.pools:
            if state.pool in aside:
                continue
            with blame(pool=state.pool):
                for node in state.living:
                    if node.registered:
                        neighbours._enter(node.instance, node.labels or labels.get(state.pool, {}))
                    leaving = leaving_soon(node, state, facts.at)
                    for pod in node.pods:
                        if pod not in leaving:
                            neighbours.add(node.instance, state.pool, pod)
        return neighbours

    def concerns(self, pod: Pod) -> bool:
        """True for a pod with a rule, and for one that a rule is about."""
        return bool(pod.scheduling.host_rules) or bool(self._covers(pod))

    def kind(self, pod: Pod) -> object:
        """What decides which hosts take *pod*; None where no rule concerns it. A host that refused one of a kind goes
        on to refuse it."""
        covering = self._covers(pod)
        if not covering and not pod.scheduling.host_rules:
            return None
        mine = tuple(self._numbers[rule] for rule in pod.scheduling.host_rules)
        return covering, mine, tuple(self._changes(number, pod) for number in mine)

    def admits(self, host: Host, pod: Pod) -> bool:
        """True when no rule of *pod* or of those on *host* keeps it away."""
        covering = self._covers(pod)
        if not covering and not pod.scheduling.host_rules:
            return True
        apart = self._apart.get(host, NONE)
        if apart and any(number in apart for number in covering):
            return False
        counts = self._here.get(host, NONE)
        return all(
            self._holds(rule, self._numbers[rule], host, counts, pod, itself=self._numbers[rule] in covering)
            for rule in pod.scheduling.host_rules
        )

    def add(self, host: Host, pool: str, pod: Pod) -> None:
        """Put *pod* on *host*, a node of *pool* (an id)."""
        new = host not in self._hosts
        if new:
            self._enter(host, self._of_pools.get(pool, {}))
        self._count(host, pod, 1)
        self._trail.append((host, pod, new))

    def mark(self) -> int:
        return len(self._trail)

    def return_to(self, mark: int) -> None:
        """Take away again what was put somewhere since *mark*."""
        while len(self._trail) > mark:
            host, pod, new = self._trail.pop()
            self._count(host, pod, -1)
            if new:
                del self._hosts[host]
                for counts in self._every_spread():
                    counts.pop(host, None)

    def _holds(
        self, rule: HostRule, number: int, host: Host, counts: Mapping[int, int], pod: Pod, *, itself: bool
    ) -> bool:
        count = counts.get(number, 0)
        match rule.together:
            case Together.NEVER:
                return not count
            case Together.ALWAYS:
                return bool(count) or not self._everywhere.get(number)
            case Together.EVENLY:
                return count + itself - self._least(rule, number, pod, host, count) <= rule.max_skew

    def _changes(self, number: int, pod: Pod) -> int:
        """What may let hosts take *pod* again that refused it: more pods elsewhere."""
        rule = self._rules[number]
        if rule.together is Together.NEVER or rule.elsewhere:
            return 0
        if rule.together is Together.ALWAYS:
            return self._everywhere.get(number, 0)
        counts = self._spread(number, pod)
        return 0 if len(counts) < rule.min_domains else min(counts.values(), default=0)

    def _least(self, rule: HostRule, number: int, pod: Pod, host: Host, count: int) -> int:
        """The fewest pods of *rule* on one of the hosts that *pod* may choose, *host* with its *count* included."""
        counts = self._spread(number, pod)
        hosts = len(counts) + (host not in counts)
        if rule.elsewhere or hosts < rule.min_domains:
            return 0
        return min(min(counts.values(), default=count), count)

    def _spread(self, number: int, pod: Pod) -> dict[Host, int]:
        """The pods that a rule covers, by the hosts that *pod* may choose by their labels."""
        selection = selection_of(pod)
        spreads = self._spreads.setdefault(number, {})
        if selection not in spreads:
            spreads[selection] = {
                host: self._here.get(host, NONE).get(number, 0)
                for host, labels in self._hosts.items()
                if chooses(selection, labels)
            }
        return spreads[selection]

    def _every_spread(self) -> Iterator[dict[Host, int]]:
        return chain.from_iterable(spreads.values() for spreads in self._spreads.values())

    def _enter(self, host: Host, labels: Mapping[str, str]) -> None:
        self._hosts[host] = labels
        for spreads in self._spreads.values():
            for selection, counts in spreads.items():
                if chooses(selection, labels):
                    counts[host] = 0

    def _count(self, host: Host, pod: Pod, change: int) -> None:
        for number in self._covers(pod):
            _add(self._here.setdefault(host, {}), number, change)
            _add(self._everywhere, number, change)
            for counts in self._spreads.get(number, {}).values():
                if host in counts:
                    counts[host] += change
        for rule in pod.scheduling.host_rules:
            if rule.together is Together.NEVER:
                _add(self._apart.setdefault(host, {}), self._numbers[rule], change)

    def _covers(self, pod: Pod) -> tuple[int, ...]:
        """The numbers of the rules that are about *pod*."""
        key = pod.namespace, pod.name, pod.uid
        if key not in self._covering:
            indexed = (self._by_label.get(label, ()) for label in pod.labels.items())
            near = dict.fromkeys(chain(*indexed, self._others))
            self._covering[key] = tuple(n for n in near if covers(self._rules[n], pod))
        return self._covering[key]


def _every(facts: Facts) -> Iterator[Pod]:
    """The pods that wait, are announced or run."""
    yield from facts.waiting
    yield from facts.other_work.deferred
    for request in facts.other_work.requests:
        if not request.waits:
            yield from request.pods
    for state in facts.pools:
        for node in state.nodes:
            yield from node.pods


def selection_of(pod: Pod) -> Selection:
    where = pod.scheduling
    return tuple(sorted(where.node_selector.items())), where.affinity


def chooses(selection: Selection, labels: Mapping[str, str]) -> bool:
    """True when a pod with this *selection* may choose a node with *labels*."""
    selector, affinity = selection
    if any(labels.get(key) != value for key, value in selector):
        return False
    return not affinity or any(all(meets(labels, r) for r in term) for term in affinity)


def _add(counts: dict[int, int], number: int, change: int) -> None:
    count = counts.get(number, 0) + change
    if count:
        counts[number] = count
    else:
        counts.pop(number, None)
