"""Lists and watches over several tenants (/clusters/*).

requests.py answers them; view.py is one request's view of the tenants. There are no writes across tenants.
"""
