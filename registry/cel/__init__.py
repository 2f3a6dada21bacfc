"""CEL for validation rules: x-kubernetes-validations as kube-apiserver 1.36 has them.

A definition is written: `check.check_rules(schema, path)` gives what is wrong with its rules. An object is written:
`rules.compile_rules(root).validate(obj, old)` gives what they say of it. Below these two:

    text ── lexer, parser, macros ──► ast ── checker ──► types ── cost ──► expressions
                   │ diagnosis                │ declarations                    │ compile, code, loops
                   ▼                          │ schema_types                    ▼
                 errors                       ▼                              values, views, libraries
                                         literals, constants

Everything is a pure function of its arguments, bounded in time and memory whatever the text. Of this server it needs
registry/schema only: the model of a schema, field errors and field paths.
"""
