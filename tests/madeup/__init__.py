"""A made-up fleet, from physics: what an acceptance would see of it, with a fault or without.

`shape` says what it is built of, `condition` in which state each part is, `faults` what breaks a
part and what a right diagnosis names. `network` and `collectives` compute how long a collective
takes; `runner` and `nodes` answer an acceptance as real nodes do. A fault changes a capacity, a
delay, an error rate or a setting, and nothing that a diagnosis reads.

numpy comes with matplotlib, which tests need anyway.
"""
