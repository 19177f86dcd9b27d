"""Write the incidents anew: ``python -m tests.incidents.write``. Read each as the person on call."""

import logging

import structlog

from tests.core.notices.write import write
from tests.incidents.play import GOLDEN, INCIDENTS, text_of

if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    write(GOLDEN, {f"{name}.txt": text_of(name) for name in INCIDENTS})
