"""The round through the areas: what one does must not touch another."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from receiver.doctor.checks import Finding, Installation
from receiver.doctor.rounds import go_round, hidden, secrets_in
from receiver.ports import TryLater, WontWork
from tests.doctor.builders import KEY, OPERATOR, PAIN, WEBHOOK, area, document, environ, installation


def fine(_: Installation) -> Iterator[Finding]:
    yield PAIN.passed("it does not")


@pytest.mark.parametrize(
    "error", [TryLater("it did not answer in time"), WontWork("the key is wrong"), RuntimeError("a mistake")]
)
def test_an_area_that_breaks_fails_by_name_and_hides_no_other(tmp_path: Path, error: Exception) -> None:
    def broken(_: Installation) -> Iterator[Finding]:
        yield PAIN.passed("before it broke")
        raise error

    (_, first), (_, second) = go_round([area(broken, "one"), area(fine, "two")], installation(tmp_path))
    assert [(f.check, f.verdict) for f in first] == [("tried.pain", "pass"), ("one.answers", "fail")]
    assert str(error) in first[1].said
    assert first[1].remedy
    assert second == [PAIN.passed("it does not")]


def test_an_area_that_hangs_is_left_and_what_it_had_found_is_kept(tmp_path: Path) -> None:
    let_go = threading.Event()

    def hanging(_: Installation) -> Iterator[Finding]:
        yield PAIN.warned("a little")
        let_go.wait(30)

    try:
        ((_, found),) = go_round([area(hanging, "slow", timeout=0.2)], installation(tmp_path))
    finally:
        let_go.set()
    assert [(f.check, f.verdict) for f in found] == [("tried.pain", "warn"), ("slow.answers", "fail")]
    assert "within 0.2 s" in found[1].said
    assert found[1].remedy == "look again"


def test_no_secret_gets_into_a_finding(tmp_path: Path) -> None:
    told = environ(
        tmp_path,
        GPU_AUTOSCALER_DATABASE_URL="postgresql://us:dbpassword@127.0.0.1/x",
        GPU_AUTOSCALER_NOTIFY_URLS="slack://aaaaaaaa/bbbbbbbb/cccccccc",
    )

    def telling(seen: Installation) -> Iterator[Finding]:
        yield PAIN.failed(" ".join(seen.environ.values()), f"not dbpassword, not {OPERATOR}")
        raise RuntimeError(f"{KEY} {WEBHOOK}")

    seen = Installation(settings=installation(tmp_path).settings, environ=told)
    ((_, found),) = go_round([area(telling)], seen)
    text = " ".join(f"{f.said} {f.remedy}" for f in found)
    assert not [s for s in (KEY, WEBHOOK, OPERATOR, "dbpassword", "slack://aaaaaaaa/bbbbbbbb/cccccccc") if s in text]


def test_a_password_in_an_address_of_the_file_is_hidden_too(tmp_path: Path) -> None:
    said = document(prometheus={"url": "http://us:prom-password@127.0.0.1:1"})

    def telling(seen: Installation) -> Iterator[Finding]:
        yield PAIN.failed(f"asked {seen.settings.configuration.prometheus.url}")

    ((_, (finding,)),) = go_round([area(telling)], installation(tmp_path, said))
    assert finding.said == "asked http://us:***@127.0.0.1:1"


def test_a_secret_that_a_file_holds_is_hidden_too(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file-0123\n")
    secrets = secrets_in({"CIVO_API_KEY_FILE": str(tmp_path / "key")})
    assert hidden(PAIN.failed("it said from-a-file-0123"), secrets).said == "it said ***"


def test_a_password_is_hidden_as_it_is_written_in_an_address_and_as_it_is_sent() -> None:
    secrets = secrets_in({"GPU_AUTOSCALER_DATABASE_URL": "postgresql://us:p%40ssword-1@127.0.0.1/x"})
    assert hidden(PAIN.failed("p%40ssword-1 is p@ssword-1"), secrets).said == "*** is ***"
