"""Compiles a checked tree to closures that evaluate it and count the run-time cost. Begin with compile.py and code.py.

Follows cel-go interpreter/.
"""
