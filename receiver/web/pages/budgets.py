"""/budgets: this month's budgets, and the form by which an operator's session raises one.

At the stop line of a budget this is the most likely repair: one tap leads here, another raises it.
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

import structlog
from flask import Blueprint, g, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from receiver.core.model.text import number
from receiver.core.money.budget import BudgetStage
from receiver.ports import TryLater
from receiver.reports.picture import Picture, ScopedBudget, kept_picture
from receiver.web.api.changes import amount_of, change_budget
from receiver.web.api.request_parts import read_form
from receiver.web.auth.access import Access
from receiver.web.errors import Problem, retry_after
from receiver.web.pages.forms import LOGGED_OUT, OTHER_SESSION
from receiver.web.parts import WebParts

RAISES = (Decimal("1.1"), Decimal("1.25"), Decimal("1.5"))  # times the allowance: a button each
REASONS = ("work waits", "a deadline", "more teams", "higher prices")
PAST_A_LINE = (BudgetStage.STOP, BudgetStage.HOLD, BudgetStage.WARN)

log = structlog.get_logger(__name__)


def offers(monthly: Decimal | None, needed: Decimal | None = None) -> list[Decimal]:
    """Return round amounts of USD above *monthly*: two figures and zeros. The first is enough for what is *needed*."""
    if not monthly or monthly < 0:
        return []
    least, amounts = max(monthly, needed or monthly), []
    for raised in (*([least] if least > monthly else []), *(least * factor for factor in RAISES)):
        unit = Decimal(10) ** max(0, raised.adjusted() - 1)
        amounts.append((raised / unit).to_integral_value(ROUND_CEILING) * unit)
    return list(dict.fromkeys(amounts))[: len(RAISES)]


def needed_by_work(parts: WebParts, picture: Picture) -> dict[str, Decimal]:
    """Return, by the title of the budget, the allowance in USD that the work which it keeps waiting needs, by the
    latest decision of each pool."""
    needed: dict[str, Decimal] = {}
    for pool in picture.pools:
        blocked = pool.decision is not None and "within_budget" in pool.held_by
        stored = parts.store.decision(pool.decision) if blocked and pool.decision is not None else None
        for uncovered in stored.decision.evidence.get("uncovered", ()) if stored is not None else ():
            lacks, monthly = number(uncovered.get("raise_usd")), number(uncovered.get("monthly_usd"))
            if lacks is not None and monthly is not None:
                title = str(uncovered.get("title"))
                needed[title] = max(needed.get(title, monthly), monthly + lacks)
    return needed


def add_budgets_page(routes: Blueprint, access: Access, parts: WebParts) -> None:
    """Add the page and what its forms send to *routes*."""

    @routes.get("/budgets")
    def budgets() -> Response:
        return _page(parts, done=request.args.get("done", "") == "1")

    @routes.post("/budgets")
    def raise_one() -> Response:
        access.require_own_site(request)
        form = read_form(request)
        if not g.visitor.is_operator:
            return _page(parts, form, refused=LOGGED_OUT, status=403)
        if not g.visitor.sent(form.get("form_token", "")):
            return _page(parts, form, refused=OTHER_SESSION, status=403)
        fields: dict[str, Any] = {name: form.get(name, "").strip() for name in ("scope", "name")}
        fields |= {"who": g.visitor.name_in(form), "why": form.get("why", "").strip() or form.get("reason", "")}
        try:
            usd = amount_of((form.get("preset") or form.get("monthly_usd", "")).strip().replace(",", "").lstrip("$"))
            change_budget(fields, usd, parts, confirmed=form.get("confirm") == "yes")
        except Problem as problem:
            return _page(parts, form, problem=problem, status=400)
        except TryLater as error:
            log.warning("store unavailable", path=request.path, code=error.code, error=str(error))
            refused = f"The budget was not saved: {error}. Send the form again later."
            response = _page(parts, form, refused=refused, status=503)
            response.headers["Retry-After"] = str(retry_after(error))
            return response
        response = redirect(url_for("acting.budgets", done=1), 303)
        access.remember(response, g.visitor, g.visitor.name_in(form))
        return response


def _page(
    parts: WebParts,
    form: Mapping[str, str] | None = None,
    *,
    problem: Problem | None = None,
    refused: str = "",
    done: bool = False,
    status: int = 200,
) -> Response:
    shows = form is None or g.visitor.is_operator  # who only sent a form may not be one who may read
    picture, _ = kept_picture(parts.store)
    sent = form or {}
    page = render_template(
        "budgets.html",
        now=parts.clock.now(),
        shows=shows,
        budgets=sorted(picture.budgets, key=_urgency) if shows else (),
        offers=offers,
        needed=needed_by_work(parts, picture) if shows else {},
        reasons=REASONS,
        form={"who": g.visitor.remembered, "reason": REASONS[0], **sent},
        # By the id of its field: there is a form for each budget.
        mistakes={f"{sent.get('scope')}-{sent.get('name')}-{problem.field or 'monthly_usd'}": problem}
        if problem
        else {},
        refused=refused,
        done=done,
    )
    return make_response(page, status)


def _urgency(budget: ScopedBudget) -> int:
    return PAST_A_LINE.index(BudgetStage(budget.stage)) if budget.stage in PAST_A_LINE else len(PAST_A_LINE)
