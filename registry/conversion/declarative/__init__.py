"""Conversion between versions by rules that stand in the definition. Pure: no I/O.

    annotation ── model ──► links of rules ── check, shapes ──► errors, when the definition is written
                               │ steps, expression: closures
                               ▼
                              plan: the way from one version to another ── remainder ──► objects

`check.validate_rules(definition)` says what is wrong with a definition's rules, `plan.Plan` converts by them.
"""
