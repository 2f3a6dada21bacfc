"""Tokens of external issuers, configured by a file in the form of Kubernetes' AuthenticationConfiguration."""
