"""Every sentence that is sent to people: one module per kind of news, and how notices are grouped.

The top of the core: it may read everything below, and nothing below may read it.
"""
