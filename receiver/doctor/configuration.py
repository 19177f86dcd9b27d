"""File and environment: whether they load, and what is valid but unusual. Calls nothing."""

from collections.abc import Iterator, Mapping, Sequence

from receiver.config import Configuration, Environment, Mode
from receiver.config.environment import SHORTEST_TOKEN, short_token
from receiver.config.values import Mistake
from receiver.core.model.text import percent, some
from receiver.doctor.checks import Area, Check, Finding, Installation

PLACEHOLDER = ".example"  # the shipped rules and examples use reserved host names (RFC 2606)

LOADS = Check(
    "configuration.loads",
    "whether the server could start with file and environment",
    "correct the file or the variable; `gpu-autoscaler check-config` checks it again",
)
ODD = Check(
    "configuration.odd",
    "whether no setting looks like a mistake, such as a misspelt variable, a price far from the list, no budget",
    "correct it, or ignore the warning if it is intended: docs/configuration.md has every key",
)
TOKENS = Check(
    "configuration.tokens",
    "whether the tokens of webhook, operator and reader are set, long enough and different",
    "set another long random word, such as the output of `openssl rand -hex 32`",
)
MODE = Check(
    "configuration.mode",
    "whether it changes Civo and the cluster (`act`) or only reports (`observe`)",
    "once its decisions are what you want, set `mode: act` (docs/operations.md, Observe first)",
)
OBJECTIVE = Check(
    "configuration.objective",
    "which objective goes first where cost and wait conflict, and the command that compares all on your own jobs",
    "choose one by `gpu-autoscaler replay` (docs/replay.md)",
)
LINKS = Check(
    "configuration.links",
    "whether `public_url` (and `docs_url`, if set) is a real host, so that messages link to decisions and runbooks",
    "set public_url to the URL of the pages; docs_url only if people read docs/ elsewhere",
)
HOLD = Check(
    "configuration.budget_hold",
    "whether a budget can block new GPU pods at its hold line",
    "name namespaces in budget.hold.namespaces or ClusterQueues in budget.hold.kueue_cluster_queues",
)


def unreadable(mistakes: Sequence[Mistake]) -> list[Finding]:
    """Return a failure for each mistake of an unusable configuration."""
    return [LOADS.failed(f"{m.path or 'the file'}: {m.problem}", m.remedy) for m in mistakes]


def look(installation: Installation) -> Iterator[Finding]:
    """Check the loaded settings."""
    settings, configuration = installation.settings, installation.settings.configuration
    if settings.pending:
        pools = ", ".join(pool.civo_pool_id for pool in settings.pending)
        message = f"nothing is decided until Civo has said size and GPUs of {pools}: {installation.without_civo}"
        yield LOADS.failed(message, "see the checks of civo, or write name, size and resources of each pool")
    else:
        read = ", ".join(pool.name for pool in configuration.pools if pool.civo_pool_id in settings.from_civo)
        message = f"file and environment are valid; {some(len(configuration.pools), 'pool')} configured"
        yield LOADS.passed(f"{message}, completed from Civo: {read}" if read else message)
    reported_below = {short_token(name) for name in ("WEBHOOK", "OPERATOR", "READER")}  # with a better remedy
    odd = [warning for warning in settings.warnings if warning not in reported_below]
    yield from ODD.warnings(odd, "nothing is unusual")
    yield tokens(settings.environment)
    observes = "mode is observe: it reports what it would do and changes nothing"
    yield MODE.warned_if(configuration.mode is Mode.OBSERVE, observes, "mode is act")
    compare = "gpu-autoscaler replay --prometheus URL --config FILE --compare objectives"
    yield OBJECTIVE.passed(f"objective is {configuration.objective}; `{compare}` shows what each would have cost")
    elsewhere = {"docs_url": configuration.docs_url} if configuration.docs_url else {}
    yield from links({"public_url": configuration.public_url, **elsewhere})
    yield hold(configuration)


def tokens(environment: Environment) -> Finding:
    """Find short and missing tokens; the loader has refused equal ones."""
    secrets = {
        "WEBHOOK": environment.webhook_tokens,
        "OPERATOR": [environment.operator_token] if environment.operator_token else [],
        "READER": [environment.reader_token] if environment.reader_token else [],
    }
    short = [
        f"GPU_AUTOSCALER_{name}_TOKEN"
        for name, secret_values in secrets.items()
        if any(len(token.get_secret_value()) < SHORTEST_TOKEN for token in secret_values)
    ]
    if short:
        return TOKENS.warned(f"shorter than {SHORTEST_TOKEN} characters, so they can be guessed: {', '.join(short)}")
    if not environment.operator_token:
        return TOKENS.warned("GPU_AUTOSCALER_OPERATOR_TOKEN is not set, so overrides and approvals are impossible")
    configured = ", ".join(name.lower() for name, secret_values in secrets.items() if secret_values)
    return TOKENS.passed(f"set, long enough and different: {configured}")


def links(addresses: Mapping[str, str | None]) -> Iterator[Finding]:
    """Judge *addresses* by key; None is not set."""
    missing = [key for key, url in addresses.items() if not url]
    invented = [key for key, url in addresses.items() if is_placeholder(url or "")]
    problems = [f"not set, so messages lack these links: {', '.join(missing)}"] if missing else []
    problems += [f"still the placeholder of the examples: {', '.join(invented)}"] if invented else []
    yield from LINKS.warnings(problems, f"set: {', '.join(addresses)}")


def is_placeholder(url: str) -> bool:
    """Return whether the host of *url* is reserved for examples."""
    host = url.partition("://")[2].partition("/")[0].partition(":")[0].lower()
    return host.endswith(PLACEHOLDER) or host.removeprefix("www.").split(".")[-2:-1] == ["example"]


def hold(configuration: Configuration) -> Finding:
    """Judge whether the budget hold can keep new work out."""
    budget = configuration.budget
    if budget is None:
        return HOLD.skipped("there is no budget, so there is no hold")
    named = [*budget.hold.namespaces, *budget.hold.kueue_cluster_queues]
    effect = f"at {percent(budget.hold_at)} of the budget no pool grows, but new GPU pods can still start on free GPUs"
    kept_out = f"at the hold line new GPU pods are blocked in {', '.join(named)}"
    return HOLD.warned_if(not named, f"{effect}: budget.hold is empty", kept_out)


AREA = Area(
    name="configuration",
    source="file and environment",
    checks=(LOADS, ODD, TOKENS, MODE, OBJECTIVE, LINKS, HOLD),
    look=look,
    remedy="run `gpu-autoscaler check-config`",
)
