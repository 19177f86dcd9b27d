"""Random months for laws: nodes of any price and age, work that holds them, any billing."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Anchor, Billing, Policy, Rounding
from receiver.core.model.usage import Owner, Usage
from tests.core.report.builders import A100_X8, H100, HOUR, L40S, a_life, a_policy, a_usage

owners = st.sampled_from([Owner(), Owner(team="vision"), Owner(team="search", project="p")])
sizes = st.sampled_from([L40S, H100, A100_X8])
billings = st.builds(
    Billing,
    granularity=st.sampled_from([timedelta(seconds=1), timedelta(minutes=1), HOUR]),
    rounding=st.sampled_from(list(Rounding)),
    anchor=st.sampled_from(list(Anchor)),
)
prices = st.one_of(st.none(), st.decimals("0.10", "20", places=4))


@st.composite
def months(draw: st.DrawFn) -> tuple[list[NodeLife], list[Usage], Policy]:
    """Nodes of any price and age, workloads that hold them, at times more than there is, and any billing."""
    lives, usage = [], []
    for number in range(draw(st.integers(0, 6))):
        lasts = draw(st.one_of(st.none(), st.floats(0.001, 800)))
        begins = draw(st.floats(-100, 743))
        size, price = draw(sizes), draw(prices)
        lives.append(a_life(f"i-{number}", begins, lasts, size=size, price_usd_per_hour=price))
        for other in range(draw(st.integers(0, 3))):
            held = draw(st.floats(0, 3_000_000))
            measured = draw(st.floats(0, 1)) * held
            row = a_usage(f"i-{number}", f"ns/Job/w{other}", owner=draw(owners), held=held, measured=measured)
            idle, busy, memory = (draw(st.floats(0, 1)) * measured for _ in range(3))
            usage.append(replace(row, idle=idle, busy=busy, memory=memory))
    return lives, usage, a_policy(billing=draw(billings))
