"""Play scenarios one after the other, and leave the cluster as it was found."""

import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal

import requests

from conformance.cluster import Cluster, NotOursError
from conformance.kubernetes_api import Api, ApiRefused
from conformance.rights import BASE, HOLLOW, OWN_ACCOUNT, create_account, delete_account, missing, named, others_here
from conformance.scenario import Result, Scenario, UnavailableError, UnmetError
from conformance.stage import NOT_ANSWERING, Place, Stage
from demo.processes import NotStarted
from receiver.adapters.clock import SystemClock


class Ceiling:
    """How much may be spent at Civo (USD; None: nothing is spent there), and how much of that may be left."""

    def __init__(self, usd: Decimal | None, price: Decimal) -> None:
        self._left, self._price = usd, price

    def holds_back(self, scenario: Scenario) -> str:
        """Return why *scenario* is not played, empty if it may: each node that it may buy costs a started hour."""
        worst = scenario.nodes * self._price
        if self._left is None or worst <= self._left:
            return ""
        return f"may cost ${worst:.2f}, and ${self._left:.2f} of --may-spend is left"

    def spent(self, nodes: int) -> None:
        """Count the started hours of *nodes*."""
        if self._left is not None:
            self._left -= nodes * self._price


def play(
    scenarios: Sequence[Scenario],
    place: Place,
    ceiling: Ceiling,
    tell: Callable[[Result], None],
    begin: Callable[[Scenario], None] = lambda _: None,
    *,
    beside: bool = False,
) -> list[Result]:
    """Play *scenarios* and return their results; *begin* is called before each is played, *tell* with its result.

    Raises ApiRefused, HTTPError, NotOursError and UnavailableError where the cluster cannot be used at all, the last
    one also where the product is at work there, unless *beside*. Whatever ends it, the cluster is cleaned.
    """
    results: list[Result] = []
    with ExitStack() as ends:
        api = None
        if place.kubeconfig is not None:
            api = Api(place.kubeconfig)
            ends.callback(api.close)
            place = _moved_in(api, place, ends, beside=beside)
        for scenario in scenarios:
            begin(scenario)
            why = _why_not(api, place, scenario) or ceiling.holds_back(scenario)
            results.append(_skipped(scenario, why) if why else _played(scenario, place, ceiling))
            tell(results[-1])
    return results


def _moved_in(api: Api, place: Place, ends: ExitStack, *, beside: bool) -> Place:
    """Create namespace and account in a cluster that stays; both go at the end."""
    lacking = missing(api, BASE)
    if lacking:
        raise UnavailableError(f"the kubeconfig's user lacks rights: {named(lacking)}")
    if not beside and (others := others_here(api, SystemClock().now())):
        raise UnavailableError(
            f"the autoscaler is at work there: {', '.join(others)}. It would see the pods of the scenarios, and the"
            " scenarios' autoscaler its nodes. To play beside it all the same: --beside (BESIDE=1)"
        )
    cluster = Cluster(api, pool="")
    cluster.begin()
    ends.callback(cluster.end)
    if missing(api, OWN_ACCOUNT):
        token = api.credentials().get("authorization", "").removeprefix("Bearer ")
        if not token:
            raise UnavailableError(f"cannot create an account for the product: {named(OWN_ACCOUNT)}")
        return replace(place, token=token)
    ends.callback(delete_account, api)
    return replace(place, token=create_account(api))


def _why_not(api: Api | None, place: Place, scenario: Scenario) -> str:
    """Return why *scenario* cannot be played at *place*, empty if it can."""
    if place.real_civo and (scenario.levers or scenario.civo):
        return "needs the simulated Civo (CIVO=stub)"
    if api is None:
        return ""
    lacking = missing(api, (*scenario.rights, *(() if place.real_civo else HOLLOW)))
    return f"the kubeconfig's user lacks rights: {named(lacking)}" if lacking else ""


def _is_of_product(error: Exception, stage: Stage) -> bool:
    """True for a request to the autoscaler itself that had no good answer."""
    request = error.request if isinstance(error, requests.RequestException) else None
    return request is not None and hasattr(stage, "product") and str(request.url).startswith(stage.product.url)


def _plainly(error: Exception) -> str:
    """What an exception of the suite says, and of what."""
    if isinstance(error, NOT_ANSWERING):
        return f"a server that the suite uses did not answer: {error}"
    if isinstance(error, ApiRefused):
        return f"the API server refused the suite: {error}"
    if isinstance(error, NotOursError | TimeoutError):
        return str(error)
    return f"a mistake of the suite, not of the autoscaler: {type(error).__name__}: {error}"


def _skipped(scenario: Scenario, why: str) -> Result:
    return Result(name=scenario.name, expected=scenario.expected, verdict="skipped", seen=why, seconds=0.0)


def _played(scenario: Scenario, place: Place, ceiling: Ceiling) -> Result:
    begun, log, stage = time.monotonic(), "", Stage(place, scenario)

    def result(verdict: str, seen: str) -> Result:
        figures = {**stage.figures, **({"instances": len(stage.bought)} if stage.bought else {})}
        return Result(
            name=scenario.name,
            expected=scenario.expected,
            verdict=verdict,  # type: ignore[arg-type]  # one of four, below
            seen=seen,
            seconds=time.monotonic() - begun,
            figures=figures,
            log=log,
        )

    try:
        with stage:
            try:
                seen = scenario.play(stage)
            except Exception:
                log = stage.product.said() if hasattr(stage, "product") else ""
                raise
            stage.figures.update(seen.figures)
        if stage.broken:
            raise UnmetError("; ".join(stage.broken))
    except UnavailableError as why:
        return _skipped(scenario, str(why))
    except UnmetError as error:
        return result("failed", str(error))
    except NotStarted as error:
        return result("failed", f"the autoscaler did not start: {error}")
    except Exception as error:  # noqa: BLE001 (whatever ends it: the others are played)
        if stage.broken:
            return result("failed", "; ".join(stage.broken))
        if _is_of_product(error, stage):
            return result("failed", f"the autoscaler does not answer: {error}")
        return replace(result("error", _plainly(error)), traceback=traceback.format_exc(limit=-3))
    finally:
        ceiling.spent(len(stage.bought))
    return result("passed", seen.said)
