"""Conversion of objects by webhooks: reviews (pure), where calls may go, the HTTPS client, and batches."""
