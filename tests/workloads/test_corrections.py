"""No file of k8s/ has one of the wrong forms that circulate, and each of them would be found."""

from pathlib import Path

from tests.lint import load_yaml, none_of
from tests.workloads.corrections import CHECKS, wrong_in
from tests.workloads.files import K8S, objects

WRONG = load_yaml(Path(__file__).with_name("wrong_forms.yaml").read_text(encoding="utf-8"))


def test_no_object_and_no_values_of_a_chart_have_one_of_the_wrong_forms() -> None:
    charts = {str(file.relative_to(K8S)): file for file in sorted(K8S.rglob("*values*.yaml"))}
    bodies = {name: load_yaml(file.read_text(encoding="utf-8")) for name, file in charts.items()}
    bodies |= {found.name: found.body for found in objects(K8S)}
    assert len(bodies) > 90
    none_of(f"{name}: {form}" for name, body in bodies.items() for form in wrong_in(body))


def test_each_wrong_form_is_found_by_its_check() -> None:
    none_of(f"{form}: {wrong_in(body)}" for form, body in WRONG.items() if wrong_in(body) != [form])


def test_every_check_has_a_wrong_form_that_it_finds() -> None:
    assert sorted(WRONG) == sorted(check.__name__.strip("_").replace("_", " ") for check in CHECKS)


def test_a_limit_range_that_gives_a_gpu_to_every_container_is_found() -> None:
    for item in ({"default": 1}, {"max": 2}, {"defaultRequest": 1}):
        spread = {key: {"nvidia.com/gpu": str(count)} for key, count in item.items()}
        body = {"kind": "LimitRange", "spec": {"limits": [{"type": "Container", **spread}]}}
        assert wrong_in(body) == ["a limit range gives gpus out"], item


def test_a_max_beside_a_default_of_zero_is_no_wrong_form() -> None:
    zeros = {"default": {"nvidia.com/gpu": "0"}, "defaultRequest": {"nvidia.com/gpu": "0"}}
    item = {"type": "Container", "max": {"nvidia.com/gpu": "2"}, **zeros}
    assert wrong_in({"kind": "LimitRange", "spec": {"limits": [item]}}) == []
