"""One step: gather facts, settle what was begun, decide, record, act, publish.

Runs the same in production, in replay and in tests. It reaches the outside through `receiver.ports` only; what is made
for people comes last and cannot stop what acts. No client, web page or command belongs here.
"""
