"""Conversion between versions by the rules of a definition's annotation. Pure: no I/O.

    annotation ── model ──► links of rules ── check, shapes ──► errors, when the definition is written
                               │ steps, expression: closures
                               ▼
                              plan: the path from one version to another ── complement ──► objects

`check.validate_rules(definition)` returns the errors of a definition's rules, `plan.Plan` converts by them.
"""
