"""From a checked tree to closures that evaluate it, with their run-time cost. Begin with compile.py and code.py.

Follows cel-go interpreter/.
"""
