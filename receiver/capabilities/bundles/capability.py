"""What this folder adds to the product, beside the options of commands in its ``__init__.py``."""

from receiver.capabilities.bundles.api import REQUESTS, add_routes
from receiver.capabilities.capability import Capability
from receiver.web.parts import WebAdditions

CAPABILITY = Capability(name="bundles", web=WebAdditions(add_routes=add_routes, requests=REQUESTS))
