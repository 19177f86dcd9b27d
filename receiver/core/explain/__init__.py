"""Why a decision is what it is and what would change it, from decisions and facts; nothing that decides imports it."""
