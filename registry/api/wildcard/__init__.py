"""Lists and watches over several tenants at once (/clusters/*).

requests.py answers them, view.py is what one request sees of the tenants, and watch.py is the source that
verbs/watch.py watches. Nothing is written across tenants.
"""
