"""docs/workloads.md says what the files of k8s/workloads say."""

import re

from receiver.config import load_text
from tests.docs.pages import section, table, text_of
from tests.workloads.files import CONFIGURATION, K8S, WORKLOADS, of_kind

PAGE = text_of("docs/workloads.md")
SETTINGS = load_text(CONFIGURATION.read_text(encoding="utf-8"))


def test_the_table_of_classes_is_that_of_the_file() -> None:
    assert SETTINGS.configuration.budget is not None
    passing = SETTINGS.configuration.budget.passing_priority_classes
    told = {
        name.strip("`"): (int(value), pushes, beyond)
        for name, value, pushes, beyond in table(section(PAGE, "4. Priority classes"))
    }
    assert told.pop("none") == (0, "no", "waits")
    assert told == {
        name: (
            body["value"],
            "no" if body["preemptionPolicy"] == "Never" else "yes",
            "bought for until the stop" if name in passing else "waits",
        )
        for body in (o.body for o in of_kind("PriorityClass"))
        for name in [body["metadata"]["name"]]
    }


def test_the_table_of_gpu_sharing_is_that_of_the_configuration() -> None:
    told = {label.strip("`"): offer.strip("`") for label, offer in table(section(PAGE, "1. GPU operator"))}
    chosen = ("nvidia.com/device-plugin.config", "nvidia.com/mig.config")
    assert told == {
        next((f"{key}: {p.labels[key]}" for key in chosen if key in p.labels), "none"): ", ".join(
            f"{name}: {count}" for name, count in p.resources.items()
        )
        for p in SETTINGS.policy.pools
    }


def test_every_folder_of_workloads_is_a_step_of_the_page_and_can_be_applied() -> None:
    folders = {file.parent for file in WORKLOADS.rglob("*.yaml")} - {WORKLOADS}
    named = set(re.findall(r"`(k8s/workloads/[\w-]+)", PAGE))
    assert {str(folder.relative_to(K8S.parent)) for folder in folders} <= named
    applied = set(re.findall(r"^kubectl apply -k (\S+)", PAGE, re.MULTILINE))
    assert all((K8S.parent / folder / "kustomization.yaml").is_file() for folder in applied)
