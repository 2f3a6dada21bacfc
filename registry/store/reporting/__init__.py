"""Reporting views: made from the shape that registry/reporting works out, with logins that may read them.

views.py keeps them in step with definitions; sql.py writes their text; logins.py and setup.py hold the walls between
tenants. Knows nothing of schemas or CEL.
"""
