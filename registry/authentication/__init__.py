"""Authentication: client certificates, bearer tokens, service account tokens, OIDC, impersonation headers.

Begin with authenticator.py. Follows apiserver pkg/authentication.
"""
