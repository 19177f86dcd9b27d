"""Civo: key, region and cluster, and whether its pools, sizes, quota and charges are what the configuration says."""

from collections.abc import Iterator
from contextlib import closing

from receiver.adapters.survey.civo import CivoSurvey
from receiver.doctor import civo_pools as pools
from receiver.doctor.area import Area, Installation
from receiver.doctor.civo_quota import QUOTA, quota
from receiver.doctor.clocks import CIVO_CLOCK, clock
from receiver.doctor.finding import Check, Finding
from receiver.ports import TryLater, WontWork

KEY = Check(
    "civo.key",
    "whether Civo takes `CIVO_API_KEY`",
    ("fail", "skip"),
    "put a valid key of the account into the secret that sets CIVO_API_KEY (civo-api-access in kube-system has one)",
)
REGION = Check(
    "civo.region",
    "whether `CIVO_REGION` is a region of this key",
    ("fail", "skip"),
    "set CIVO_REGION as in the secret civo-api-access in kube-system",
)
CLUSTER = Check(
    "civo.cluster",
    "whether `CIVO_CLUSTER_ID` is a cluster there",
    ("fail", "skip"),
    "set CIVO_CLUSTER_ID as in the secret civo-api-access in kube-system; `civo kubernetes ls` lists them",
)
SIZES_READ = Check(
    "civo.sizes_read",
    "whether Civo lists its sizes",
    ("warn",),
    "run the doctor again later; sizes, prices and quota were not compared",
)
QUOTA_READ = Check(
    "civo.quota_read",
    "whether Civo tells the account's quota",
    ("warn",),
    "look at the quota in Civo's dashboard, or use a key that may read it",
)
CHARGES = Check(
    "civo.charges",
    "whether the account's charges can be read: a new store is seeded from them, and the ledger compared",
    ("warn",),
    "use a key that may read charges, or state the month's spend (budget.spent_usd_stated)",
)
CHECKS = (
    KEY,
    REGION,
    CLUSTER,
    pools.POOLS,
    pools.SIZE,
    pools.GPUS,
    pools.SELECTABLE,
    pools.PRICE,
    pools.PRICED_GPUS,
    pools.LABELS,
    pools.TAINTS,
    pools.COUNT,
    SIZES_READ,
    QUOTA_READ,
    QUOTA,
    CHARGES,
    CIVO_CLOCK,
)


def look(installation: Installation) -> Iterator[Finding]:
    """Ask Civo from the key to the charges; what one answer does not tell is left out of the rest."""
    with closing(opened(installation)) as civo:
        try:
            found = civo.pools()
        except WontWork as error:
            yield from refused(error)
            return
        for check, said in ((KEY, "Civo takes the key"), (REGION, civo.region), (CLUSTER, civo.cluster_id)):
            yield check.passed(said)
        policy = installation.settings.policy
        yield from pools.at_civo(policy.pools, found)
        yield from pools.priced(policy.pools, has_budget=policy.budget is not None)
        try:
            sizes = civo.sizes()
        except (TryLater, WontWork) as error:
            yield SIZES_READ.warned(str(error))
            sizes = {}
        else:
            yield SIZES_READ.passed(f"Civo lists {len(sizes)} sizes")
            yield from pools.offered(policy.pools, sizes)
            listed = {name: price.gpus for name, price in installation.settings.prices.sizes.items()}
            yield pools.counted(policy.pools, sizes, listed)
        try:
            account = civo.quota()
        except (TryLater, WontWork) as error:
            yield QUOTA_READ.warned(str(error))
        else:
            yield QUOTA_READ.passed("Civo tells the account's quota")
            yield from quota(policy, found, sizes, account)
        yield charges(installation, civo)
        yield clock(CIVO_CLOCK, civo.told)


def opened(installation: Installation) -> CivoSurvey:
    """Return Civo as the server would ask it. Raises WontWork for a key or id that cannot be sent."""
    told = installation.settings.environment
    try:
        survey = CivoSurvey(
            api_url=told.civo_api_url,
            api_key=told.civo_api_key.get_secret_value(),
            region=told.civo_region,
            cluster_id=told.civo_cluster_id,
            timeouts=installation.timeouts,
        )
    except ValueError as error:  # the message names the variable
        raise WontWork(str(error), code="configuration") from None
    survey.listen(installation.clock)
    return survey


def refused(error: WontWork) -> Iterator[Finding]:
    """Say which of key, region and cluster Civo did not take; those before it were taken, those behind are unknown.

    Raises *error* when it was none of them.
    """
    if error.code.startswith("authentication_"):
        broken = KEY
    elif error.code == "region_unavailable":
        broken = REGION
    elif error.code.startswith("database_kubernetes_cluster_"):
        broken = CLUSTER
    else:
        raise error
    order = (KEY, REGION, CLUSTER)
    for check in order[: order.index(broken)]:
        yield check.passed("Civo took it")
    yield broken.failed(str(error))
    for check in order[order.index(broken) + 1 :]:
        yield check.skipped(f"not known while {broken.name} fails")


def charges(installation: Installation, civo: CivoSurvey) -> Finding:
    """Read the charges of this month."""
    now = installation.clock.now()
    begins = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    try:
        found = civo.charges(begins, now)
    except (TryLater, WontWork) as error:
        return CHARGES.warned(str(error))
    if found.unreadable:
        said = f"{len(found.unreadable)} of this month's charges cannot be read, the first: {found.unreadable[0]}"
        return CHARGES.warned(said)
    return CHARGES.passed(f"{len(found.records)} charges of this month can be read")


AREA = Area(
    name="civo",
    source="Civo's API",
    checks=CHECKS,
    look=look,
    remedy="see that this host reaches CIVO_API_URL (egress rules, proxy, DNS), and try again",
)
