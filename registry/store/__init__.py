"""PostgreSQL: the only package that speaks SQL. Knows nothing of HTTP and of Kubernetes' rules.

store.py is the object through which all above reads and writes; types.py its border; commit/ the writes, reads/ the
reads, feed/ the change log as watches see it, reporting/ the SQL views, encryption/ the sealed bodies.
"""
