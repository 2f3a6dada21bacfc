"""A fuzzer of the HTTP API: recorded exchanges and real definitions, mutated by their grammar, sent to a server.

`python -m tests.fuzz --requests 50000 --seed 7` runs it, test_fuzz.py runs a short one and replays what was found
before (corpus/). README.md says how findings are kept.
"""
