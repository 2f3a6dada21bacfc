"""Reporting views: made from the shape that registry/reporting works out, with logins that may read them."""
