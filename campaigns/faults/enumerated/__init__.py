"""Every fault at every write: Sieve's patterns (OSDI 2022), enumerated instead of drawn. See tests/README.md.

A *write site* is a write of the product together with the function that makes it: ``cluster.cordon in
step.carry_out._retire_one``. `sites` finds them in the source, `tours` are short lives that together pass each of them,
`tap` breaks one write in one way, `drive` lives a tour with that fault and compares its end with that of the same tour
without, and `matrix` does so for every site and every fault.
"""
