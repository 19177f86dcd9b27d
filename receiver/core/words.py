"""Numbers in sentences."""


def some(count: int, noun: str) -> str:
    """*count* and *noun*, in the plural unless there is exactly one: ``1 node``, ``0 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
