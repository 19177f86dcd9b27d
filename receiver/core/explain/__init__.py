"""Why a decision is what it is and what would change it, and the picture that pages and metrics show.

It reads decisions and facts. Nothing that decides may import it.
"""
