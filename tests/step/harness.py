"""A life by the name of its first home, for checks that are kept outside this repository."""

from tests.given.life import GPU as GPU
from tests.given.life import PRICE as PRICE
from tests.given.life import SIZE as SIZE
from tests.given.life import START as START
from tests.given.life import TICK as TICK
from tests.given.life import Life as Life
from tests.given.life import Wrapped as Wrapped
from tests.given.life import a_job as a_job
from tests.given.life import a_policy as a_policy
from tests.given.life import a_world as a_world
