"""A budget's hold over HTTP: our quota appears where it is configured, and only ours is gone when the hold is over."""

from click.testing import CliRunner

from receiver.cli.main import main
from receiver.ports import QUOTA_NAME
from tests.e2e.clouds import a_cloud
from tests.e2e.installing import Install
from tests.e2e.receivers import OPERATOR_TOKEN
from tests.e2e.waiting import until

THEIRS = {"metadata": {"name": "theirs"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}}
LINES = {"monthly_usd": 1.5, "hold": {"namespaces": ["ml"]}}  # one node-hour costs USD 1.29: 86 %


def test_at_eighty_percent_our_quota_is_there_and_at_the_holds_end_it_is_gone(install: Install) -> None:
    with a_cloud(count=1) as cloud:
        with cloud.moved() as world:
            theirs = cloud.live.quotas.create("ml", THEIRS, world.now)

        def quotas() -> set[str]:
            with cloud.moved():
                return {q["metadata"]["name"] for q in cloud.live.quotas.every()}

        receiver = install(cloud, budget=LINES).serve()
        until(lambda: quotas() == {"theirs", QUOTA_NAME}, "our quota beside theirs")
        until(lambda: receiver.get("/api/v1/budget").json()["kept_out"], "a place that is shown as kept out")
        assert [k["place"] for k in receiver.get("/api/v1/budget").json()["kept_out"]] == ["ml"]

        env = {"GPU_AUTOSCALER_URL": receiver.url, "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR_TOKEN}
        said = ("budget", "set", "1000", "--who", "ada", "--why", "a deadline")
        done = CliRunner(env=env).invoke(main, said)
        assert done.exit_code == 0, done.output
        until(lambda: quotas() == {"theirs"}, "theirs alone")
        with cloud.moved():
            assert cloud.live.quotas.get("ml", "theirs") == theirs
