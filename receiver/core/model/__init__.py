"""The nouns: pools, nodes, pods, policy, actions, signals and what the ledger remembers, as frozen values.

A noun may compute what follows from itself alone. It knows no rule, no price of a month and no sentence for people.
"""
