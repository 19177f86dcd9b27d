"""Names of pools and nodes in place of their ids, in texts of other systems."""

import pytest

from receiver.core.model.text import with_names

NAMES = {"l40s": "l40s-prod", "gpu": "pool-a", "pool-7f3e": "h100", "i-1": "node i-10", "i-10": "n10"}


@pytest.mark.parametrize(
    "text",
    [
        "nodes carry no nvidia.com/l40s.present",
        "it asks for 1 nvidia.com/gpu",
        "l40s-prod does not grow",
        "an.g1.l40s.kube.x1",
        "ml-l40s/train and train_l40s",
        "gpu=true:NoSchedule",
        "gpu-autoscaler.io/idle",
        "/guides/gpu.md",
        "",
    ],
)
def test_an_id_within_a_longer_word_stays(text: str) -> None:
    assert with_names(text, NAMES) == text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pool l40s: no stock", "pool l40s-prod: no stock"),
        ('the pool "pool-7f3e" is gone.', 'the pool "h100" is gone.'),
        ("l40s, pool-7f3e", "l40s-prod, h100"),
        ("it was l40s.", "it was l40s-prod."),
        ("(i-10)", "(n10)"),
        ("i-1", "node i-10"),
    ],
)
def test_a_whole_id_is_replaced_once(text: str, named: str) -> None:
    assert with_names(text, NAMES) == named
