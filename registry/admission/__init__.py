"""Admission: which policies and webhooks a write concerns, and what they say of it.

Pure but for nothing: rules and selectors (rules, selectors), the CEL of policies (environment, dynamic, authorizer,
messages), policies (compiling, validating, mutating), reviews for webhooks (review), what is wrong with a configuration
(validation_*), and type checking (typecheck). Loading, waiting and calling is registry/api/admission/.
"""
