"""Secrets in files are taken anew while the program runs; what cannot be used changes nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from receiver.config.environment import read_environment
from receiver.config.settings import LOOK_EVERY, ROTATED, LiveSecrets
from tests.config.builders import ENVIRONMENT

WEBHOOK, OPERATOR, READER, KEY = ROTATED[1], ROTATED[2], ROTATED[3], ROTATED[0]


class Mounted:
    """Secrets as Kubernetes mounts them: each file is a link through a folder that is turned around at once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.at, self._versions = folder, 0.0, 0
        self.said = {name: ENVIRONMENT.get(name, f"a-token-of-{name}") for name in ROTATED}
        self.write()
        self.environ = {k: v for k, v in ENVIRONMENT.items() if k not in ROTATED}
        for name in ROTATED:
            (folder / name).symlink_to(folder / "..data" / name)
            self.environ[f"{name}_FILE"] = str(folder / name)
        environment, mistakes, _ = read_environment({**self.environ, "GPU_AUTOSCALER_CONFIG": "-"})
        assert environment, mistakes
        self.secrets = LiveSecrets({**self.environ, "GPU_AUTOSCALER_CONFIG": "-"}, environment, now=lambda: self.at)
        self.pass_time(2)

    def write(self, **changed: str) -> None:
        """Mount a new version of everything."""
        self.said.update(changed)
        self._versions += 1
        version = self.folder / f"..{self._versions}"
        version.mkdir()
        for name, text in self.said.items():
            (version / name).write_text(text)
        new = self.folder / "..data_tmp"
        new.symlink_to(version)
        new.rename(self.folder / "..data")

    def pass_time(self, looks: int = 1) -> None:
        """Let the time pass after which files are looked at, and let them be, so often."""
        for _ in range(looks):
            self.at += LOOK_EVERY
            self.secrets.tokens()

    def change(self, **changed: str) -> None:
        """Mount changes, and let them be taken."""
        self.write(**changed)
        self.pass_time(2)


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path)


def test_a_token_that_is_changed_in_its_file_is_the_one_from_then_on(mounted: Mounted) -> None:
    mounted.change(**{OPERATOR: "another-operators-token"})
    assert mounted.secrets.tokens().operator == "another-operators-token"


def test_the_webhook_has_two_tokens_while_its_file_holds_two(mounted: Mounted) -> None:
    mounted.change(**{WEBHOOK: "the-old-token-of-alertmanager\nthe-new-token-of-alertmanager\n"})
    assert mounted.secrets.tokens().webhook == ("the-old-token-of-alertmanager", "the-new-token-of-alertmanager")


def test_civos_key_is_changed_without_a_restart(mounted: Mounted) -> None:
    mounted.change(**{KEY: "another-key\n"})
    assert mounted.secrets.civo_key() == "another-key"


def test_a_change_is_not_looked_for_at_every_request(mounted: Mounted) -> None:
    mounted.write(**{OPERATOR: "another-operators-token"})
    mounted.at += LOOK_EVERY / 2
    assert mounted.secrets.tokens().operator != "another-operators-token"


@pytest.mark.parametrize(
    "name, text",
    [
        (WEBHOOK, ""),
        (OPERATOR, ""),
        (READER, " \n"),
        (KEY, ""),
        (KEY, "a key"),
        (OPERATOR, "two words"),
        (OPERATOR, ENVIRONMENT[WEBHOOK]),
    ],
)
def test_what_cannot_be_used_changes_nothing_and_is_told_once(mounted: Mounted, name: str, text: str) -> None:
    before = mounted.secrets.tokens(), mounted.secrets.civo_key()
    with capture_logs() as logs:
        mounted.change(**{name: text})
        mounted.pass_time()
    assert (mounted.secrets.tokens(), mounted.secrets.civo_key()) == before
    assert mounted.secrets.refused
    assert [line["event"] for line in logs] == ["secrets refused"]
    assert name in str(logs[0]["mistakes"])
    assert not text.strip() or text.strip() not in str(logs)


def test_after_the_mistake_is_mended_everything_is_taken(mounted: Mounted) -> None:
    mounted.change(**{WEBHOOK: "", OPERATOR: "another-operators-token"})
    mounted.change(**{WEBHOOK: "another-webhook-token"})
    assert not mounted.secrets.refused
    assert mounted.secrets.tokens().operator == "another-operators-token"
    assert mounted.secrets.tokens().webhook == ("another-webhook-token",)


def test_files_that_vanish_change_nothing(mounted: Mounted) -> None:
    before = mounted.secrets.tokens()
    (mounted.folder / "..data").unlink()
    mounted.pass_time(2)
    assert mounted.secrets.tokens() == before
    assert mounted.secrets.refused


@pytest.mark.parametrize("name", [OPERATOR, READER, WEBHOOK, KEY])
def test_half_of_a_file_is_never_taken(mounted: Mounted, name: str) -> None:
    before = mounted.secrets.tokens(), mounted.secrets.civo_key()
    file = mounted.folder / "..data" / name
    with capture_logs() as logs:
        for written in ("another", "another-long", "another-long-ran"):
            file.write_text(written)
            mounted.pass_time()
        assert (mounted.secrets.tokens(), mounted.secrets.civo_key()) == before
        file.write_text("another-long-random-word")
        mounted.pass_time(2)
    assert "another-long-random-word" in str(in_force(mounted.secrets))
    assert [line["names"] for line in logs] == [[name]]


def test_a_file_that_changes_while_it_is_read_waits_for_the_next_look(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = mounted.secrets.tokens()
    mounted.write(**{OPERATOR: "another-operat"})
    mounted.pass_time()

    def reading(environ: Mapping[str, str]) -> Any:
        found = read_environment(environ)
        if mounted.said[OPERATOR] == "another-operat":
            mounted.write(**{OPERATOR: "another-operators-token"})
        return found

    monkeypatch.setattr("receiver.config.settings.read_environment", reading)
    mounted.pass_time()
    assert mounted.secrets.tokens() == before
    mounted.pass_time(2)
    assert mounted.secrets.tokens().operator == "another-operators-token"


def in_force(secrets: LiveSecrets) -> tuple[object, ...]:
    """Every secret in force."""
    tokens = secrets.tokens()
    return (secrets.civo_key(), tokens.webhook, tokens.operator, tokens.reader)


def test_the_log_names_what_was_changed_and_no_secret(mounted: Mounted) -> None:
    with capture_logs() as logs:
        mounted.change(**{OPERATOR: "another-operators-token", KEY: "another-key"})
    assert [(line["event"], line["names"]) for line in logs] == [("secrets changed", [KEY, OPERATOR])]
    assert "another-operators-token" not in str(logs)
    assert "another-key" not in str(logs)


def test_tokens_stay_out_of_repr(mounted: Mounted) -> None:
    assert mounted.said[OPERATOR] not in repr(mounted.secrets.tokens())
    assert mounted.said[WEBHOOK] not in repr(mounted.secrets.tokens())


# --- the configuration file
