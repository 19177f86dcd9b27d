"""Documents for readers: what a step publishes (`picture`) and the report of a month, with its text, table and page.

One pydantic model per noun is what is stored, answered and described. Nothing here decides or writes.
"""
