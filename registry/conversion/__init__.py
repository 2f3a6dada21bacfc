"""Conversion of objects between versions: by webhooks (reviews, batches) and by rules (declarative)."""
