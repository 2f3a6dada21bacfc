"""Server-side apply and managed fields, and the patches (patches/). Pure.

Begin with managed_fields.py (ownership after a write) and types.py (how values merge).
Follows structured-merge-diff and apimachinery pkg/util/managedfields.
"""
