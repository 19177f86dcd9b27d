"""What this folder adds to the product: options of commands alone."""

from receiver.capabilities.capability import Capability

CAPABILITY = Capability(name="bundles")
