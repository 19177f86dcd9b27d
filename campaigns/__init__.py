"""Programs that search for hours: random worlds, real processes, whole machines.

`tests/campaigns` plays a fixed part of each. Campaigns use helpers of `tests`; no helper of `tests` uses a campaign.
"""
