"""What file and environment say, judged without asking anybody: what loads and is odd all the same."""

from collections.abc import Iterator, Mapping, Sequence

from receiver.config import Configuration, Environment, Mode
from receiver.config.environment import SHORTEST_TOKEN
from receiver.config.mistakes import Mistake
from receiver.doctor.checks import Area, Check, Finding, Installation

PLACEHOLDER = ".example"  # the shipped rules and examples name hosts that cannot exist (RFC 2606)

LOADS = Check(
    "configuration.loads",
    "whether file and environment can be used, as the server reads them on its start",
    ("fail",),
    "correct the file or the variable; `gpu-autoscaler check-config` checks it again",
)
ODD = Check(
    "configuration.odd",
    "what can be used and is probably not meant: misspelt variables, a price far from the list, no budget",
    ("warn",),
    "correct it, or leave it if it is meant: docs/configuration.md has every key",
)
TOKENS = Check(
    "configuration.tokens",
    "whether the tokens of webhook, operator and reader are there, long enough and different",
    ("warn",),
    "set another long random word, such as what `openssl rand -hex 32` prints",
)
MODE = Check(
    "configuration.mode",
    "whether it writes to Civo and the cluster (`act`) or only says what it would do (`observe`)",
    ("warn",),
    "once its decisions are what you want, set `mode: act` and restart (docs/operations.md, Observe first)",
)
LINKS = Check(
    "configuration.links",
    "whether `docs_url` and `public_url` are set, and no placeholder, so that messages lead to runbooks and decisions",
    ("warn",),
    "set docs_url to where you publish docs/, and public_url to where people open the pages",
)
HOLD = Check(
    "configuration.budget_hold",
    "whether a budget has the means to keep new work out at its hold",
    ("warn", "skip"),
    "name namespaces in budget.hold.namespaces or ClusterQueues in budget.hold.kueue_cluster_queues",
)
CHECKS = (LOADS, ODD, TOKENS, MODE, LINKS, HOLD)


def unreadable(mistakes: Sequence[Mistake]) -> list[Finding]:
    """Return a failure for each mistake of a configuration that cannot be used."""
    return [LOADS.failed(f"{m.path or 'the file'}: {m.problem}", m.remedy) for m in mistakes]


def look(installation: Installation) -> Iterator[Finding]:
    """Yield what the loaded settings say of themselves."""
    settings = installation.settings
    pools = len(settings.configuration.pools)
    yield LOADS.passed(f"file and environment can be used; {pools} pool{'s' if pools != 1 else ''} configured")
    # A token that is too short is told below, with what helps.
    odd = [w for w in settings.warnings if not w.partition(":")[0].endswith("_TOKEN") or "shorter" not in w]
    yield from [ODD.warned(warning) for warning in odd] or [ODD.passed("nothing is odd")]
    yield tokens(settings.environment)
    yield mode(settings.configuration.mode)
    yield from links({"docs_url": settings.configuration.docs_url, "public_url": settings.configuration.public_url})
    yield hold(settings.configuration)


def tokens(environment: Environment) -> Finding:
    """Judge the tokens; the loader refuses those that are the same, so what is left is short or absent ones."""
    words = {
        "WEBHOOK": [t.get_secret_value() for t in environment.webhook_tokens],
        "OPERATOR": [environment.operator_token.get_secret_value()] if environment.operator_token else [],
        "READER": [environment.reader_token.get_secret_value()] if environment.reader_token else [],
    }
    short = [
        f"GPU_AUTOSCALER_{name}_TOKEN" for name, said in words.items() if any(len(w) < SHORTEST_TOKEN for w in said)
    ]
    if short:
        return TOKENS.warned(f"shorter than {SHORTEST_TOKEN} characters, so it can be guessed: {', '.join(short)}")
    if not words["OPERATOR"]:
        said = "GPU_AUTOSCALER_OPERATOR_TOKEN is not set, so nobody can override a decision or answer a question"
        return TOKENS.warned(said)
    there = ", ".join(name.lower() for name, said in words.items() if said)
    return TOKENS.passed(f"there, long enough and different: {there}")


def mode(said: Mode) -> Finding:
    """Say in which mode it runs: observing is right in the beginning, and forgotten easily."""
    if said is Mode.OBSERVE:
        return MODE.warned("mode is observe: it says what it would do and changes nothing")
    return MODE.passed("mode is act")


def links(addresses: Mapping[str, str | None]) -> Iterator[Finding]:
    """Judge each of *addresses* by key: None where it is not set."""
    missing = [key for key, url in addresses.items() if not url]
    invented = [key for key, url in addresses.items() if url and is_placeholder(url)]
    if missing:
        yield LINKS.warned(f"not set, so messages carry no links there: {', '.join(missing)}")
    if invented:
        yield LINKS.warned(f"still the placeholder of the examples: {', '.join(invented)}")
    if not missing and not invented:
        yield LINKS.passed(f"set: {', '.join(addresses)}")


def is_placeholder(url: str) -> bool:
    """True for a URL whose host is one of those that are kept free for examples."""
    host = url.partition("://")[2].partition("/")[0].partition(":")[0].lower()
    return host.endswith(PLACEHOLDER) or host.removeprefix("www.").split(".")[-2:-1] == ["example"]


def hold(configuration: Configuration) -> Finding:
    """Judge whether a budget's hold can keep anything out."""
    budget = configuration.budget
    if budget is None:
        return HOLD.skipped("there is no budget, so nothing is held")
    if not budget.hold.namespaces and not budget.hold.kueue_cluster_queues:
        line = f"at {budget.hold_at:.0%} of the budget no pool grows"
        return HOLD.warned(f"{line}, and new pods still take what is there: no means to keep them out is named")
    named = [*budget.hold.namespaces, *budget.hold.kueue_cluster_queues]
    return HOLD.passed(f"at the hold new work is kept out of {', '.join(named)}")


AREA = Area(
    name="configuration",
    source="file and environment",
    checks=CHECKS,
    look=look,
    remedy="run `gpu-autoscaler check-config`",
)
