"""What is told of nodes under repair, case by case."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from receiver.core.model.policy import Repair
from receiver.core.notices.notice import Notice
from tests.core.builders import MINUTE, NOW, with_fields
from tests.core.notices.scene import H100, L40S, NUMBER, POLICY, busy, known, pool_of, standing


def _under_repair() -> Notice:
    sick = with_fields(busy("l40s-2"), sick="condition DCGMError is True", sick_since=NOW - 60 * MINUTE)
    policy = replace(POLICY, pools=(replace(L40S, repair=Repair.REPLACE), H100))
    (notice,) = standing(known(pool_of(busy(), sick)), policy)
    return replace(notice, decision=NUMBER)


CASES: Mapping[str, Callable[[], Notice]] = {"sick_under_repair": _under_repair}
