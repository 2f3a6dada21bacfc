"""Tokens of outside issuers, by a file in the form of Kubernetes' AuthenticationConfiguration."""
