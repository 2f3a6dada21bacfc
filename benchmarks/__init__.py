"""Benchmarks of the server: `python -m benchmarks`. docs/performance.md explains the figures.

python -m benchmarks [--database-url URL] [--workers 1,2] [--quick]    the server, from outside
python -m benchmarks.schemas                                           schemas and many definitions, from inside
python -m benchmarks.cel                                               CEL rules, from inside
"""
