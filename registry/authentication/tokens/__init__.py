"""Credentials issued by this server: bearer tokens, and service account tokens with their keys."""
