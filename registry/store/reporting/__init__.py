"""Reporting views: built from the shapes that registry/reporting computes, with logins that may read them.

views.py keeps them in step with definitions; sql.py generates their SQL; logins.py and setup.py isolate tenants from
each other. Knows nothing of schemas or CEL.
"""
