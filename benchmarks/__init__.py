"""What the server costs and how fast it is: `python -m benchmarks` (docs/performance.md says how to read it).

python -m benchmarks [--database-url URL] [--workers 1,2] [--quick]    the server, from outside
python -m benchmarks.schemas                                           schemas and many definitions, from inside
python -m benchmarks.cel                                               CEL rules, from inside
"""
