"""No file of k8s/ has one of the wrong forms that circulate, and each of them would be found."""

from pathlib import Path

import pytest

from tests.lint import load_yaml
from tests.workloads.corrections import CHECKS, wrong_in
from tests.workloads.files import K8S, Object, objects

WRONG = load_yaml(Path(__file__).with_name("wrong_forms.yaml").read_text(encoding="utf-8"))
LIMITS = {"a default of one": {"default": 1}, "a max alone": {"max": 2}, "a request alone": {"defaultRequest": 1}}


@pytest.mark.parametrize("found", objects(K8S), ids=lambda found: found.name)
def test_an_object_of_ours_has_none_of_the_wrong_forms(found: Object) -> None:
    assert wrong_in(found.body) == []


@pytest.mark.parametrize("file", sorted(K8S.rglob("*values*.yaml")), ids=lambda file: str(file.relative_to(K8S)))
def test_values_of_charts_have_none_of_the_wrong_forms(file: Path) -> None:
    assert wrong_in(load_yaml(file.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("form", WRONG)
def test_a_wrong_form_is_found_by_its_check(form: str) -> None:
    assert wrong_in(WRONG[form]) == [form]


def test_every_check_has_a_wrong_form_that_it_finds() -> None:
    assert sorted(WRONG) == sorted(check.__name__.strip("_").replace("_", " ") for check in CHECKS)


@pytest.mark.parametrize("item", LIMITS.values(), ids=list(LIMITS))
def test_a_limit_range_that_gives_a_gpu_to_every_container_is_found(item: dict[str, int]) -> None:
    spread = {key: {"nvidia.com/gpu": str(count)} for key, count in item.items()}
    body = {"kind": "LimitRange", "spec": {"limits": [{"type": "Container", **spread}]}}
    assert wrong_in(body) == ["a limit range gives gpus out"]


def test_a_max_beside_a_default_of_zero_is_no_wrong_form() -> None:
    zeros = {"default": {"nvidia.com/gpu": "0"}, "defaultRequest": {"nvidia.com/gpu": "0"}}
    item = {"type": "Container", "max": {"nvidia.com/gpu": "2"}, **zeros}
    assert wrong_in({"kind": "LimitRange", "spec": {"limits": [item]}}) == []
