"""A cloud that cannot be reached, or refuses the key: the server runs, says which and why, and acts once it can."""

import html

from demo.plan import API_KEY
from demo.processes import free_port
from simulator.civo_shapes import SHOWN_KUBECONFIG, SHOWN_PASSWORD, SHOWN_STATSD
from simulator.server import Simulator
from tests.e2e.clouds import a_cloud, calls, submit, until_running
from tests.e2e.installing import Install
from tests.e2e.receivers import OPERATOR_TOKEN, READABLE_PATHS, WEBHOOK_TOKEN, Receiver
from tests.e2e.waiting import until
from tests.payloads import a_payload

SECRETS = (API_KEY, WEBHOOK_TOKEN, OPERATOR_TOKEN, SHOWN_PASSWORD, SHOWN_STATSD, "SECRET-kubeconfig-token")


def _no_secret_was_told(receiver: Receiver) -> None:
    """Look for every secret in what was printed, in the store's files, and in every answer over HTTP."""
    told = {"the output": receiver.output.read_bytes()}
    told |= {path: receiver.get(path).content for path in READABLE_PATHS}
    told |= {f.name: f.read_bytes() for f in receiver.store.parent.glob(f"{receiver.store.name}*")}
    assert receiver.store.name in told
    assert SHOWN_KUBECONFIG.count("SECRET-kubeconfig-token") == 1
    assert [(where, s) for where, content in told.items() for s in SECRETS if s.encode() in content] == []
    assert [where for where, content in told.items() if b"SECRET" in content] == []


def _why_it_stands(receiver: Receiver) -> str:
    """What the rule on silent sources says of the pool."""
    [said] = [reason["detail"] for reason in receiver.pool()["reasons"] if reason["rule"] == "sources_answer"]
    return str(said)


def _is_alive_and_says(receiver: Receiver, *words: str) -> None:
    """Hold that the status page and the log name each of *words*, and that the server takes deliveries meanwhile."""
    assert receiver.get("/healthz").status_code == 200
    assert receiver.get("/readyz").status_code == 200
    receiver.deliver(a_payload())
    receiver.until_considered()
    page = html.unescape(receiver.get("/").text)
    assert [word for word in words if word not in page] == []
    assert [word for word in words if word not in receiver.said()] == []
    assert "Traceback" not in receiver.said()


def test_a_server_that_reaches_nothing_runs_and_acts_when_the_cloud_is_there(install: Install) -> None:
    with a_cloud(listen=f"127.0.0.1:{free_port()}") as gone:
        receiver = install(gone, tick="1s")
    receiver.serve()
    _is_alive_and_says(receiver, "civo", f"Civo at {gone.url} ", "kubernetes", f"{gone.url}")
    _no_secret_was_told(receiver)
    with a_cloud(listen=gone.url.removeprefix("http://")) as back:
        submit(back)
        until_running(back)
        assert [c["body"]["count"] for c in calls(back, "PUT")] == [1]
        until(lambda: receiver.pool()["ready"] == 1, "a ready node in the picture")
        _no_secret_was_told(receiver)


def test_demand_that_cannot_be_bought_names_the_address_that_does_not_answer(
    cloud: Simulator, install: Install
) -> None:
    receiver = install(cloud, tick="1s", environ={"CIVO_API_URL": f"http://127.0.0.1:{free_port()}"}).serve()
    submit(cloud)
    _is_alive_and_says(receiver, "civo", receiver.environ["CIVO_API_URL"])
    assert receiver.pool()["because"].endswith("; Civo does not answer")
    why = _why_it_stands(receiver)
    assert why.count("no change while civo: the request to Civo at " + receiver.environ["CIVO_API_URL"]) == 1
    assert [e for e in cloud.log.entries() if e["face"] == "civo"] == []  # the pod's owner may get an Event


def test_a_key_that_is_refused_is_named_and_another_one_is_acted_on(install: Install) -> None:
    with a_cloud(civo={"api_key": "SECRET-the-rotated-key"}) as cloud:
        receiver = install(cloud, tick="1s").serve()
        submit(cloud)
        _is_alive_and_says(receiver, "civo", "CIVO_API_KEY")
        assert "CIVO_API_KEY" in _why_it_stands(receiver)
        _no_secret_was_told(receiver)
        assert receiver.terminate(10) == 0
        receiver.environ["CIVO_API_KEY"] = "SECRET-the-rotated-key"
        receiver.serve()
        until_running(cloud)
        assert [c["body"]["count"] for c in calls(cloud, "PUT")] == [1]
        _no_secret_was_told(receiver)
