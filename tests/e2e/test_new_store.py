"""A new store under a budget, over HTTP: what the month had cost before it comes from Civo's charges."""

from tests.e2e.clouds import a_cloud
from tests.e2e.installing import Install

CHARGES = (
    {"id": 900, "code": "kube-node-an.g1.l40s.kube.x1", "label": "gone", "num_hours": 5},
    {"id": 901, "code": "dbaas-small", "label": "db", "num_hours": "12.5", "from": None, "to": None},
    {"id": 902, "code": "loadbalancer", "label": "lb", "num_hours": 100, "region": "nyc1"},
)


def test_a_new_store_is_seeded_from_the_charges_and_names_what_has_no_price(install: Install) -> None:
    with a_cloud(civo={"other_charges": list(CHARGES)}) as cloud:
        receiver = install(cloud, budget={"monthly_usd": 1000}).serve()
        charges = receiver.get("/api/v1/charges").json()
        assert receiver.get("/api/v1/budget").json()["spent_usd"] == "6.45"
        assert charges["unpriced"] == [{"code": "dbaas-small", "hours": 12.5}]
        assert charges["account_usd"] == "7.9381"
        assert (charges["records"], charges["unreadable"], charges["failure"]) == (3, [], "")
