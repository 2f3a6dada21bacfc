"""Credentials that this server itself gives out: bearer tokens, and tokens of service accounts with their keys."""
