"""CEL for validation rules: x-kubernetes-validations as in kube-apiserver 1.36.

When a definition is written, `check.check_rules(schema, path)` returns the errors of its rules. When an object is
written, `rules.compile_rules(root).validate(obj, old)` returns the errors of the object. Below these two:

    text ── lexer, parser, macros ──► ast ── checker ──► types ── cost ──► expressions
                   │ diagnosis                │ declarations                    │ compile, code, loops
                   ▼                          │ schema_types                    ▼
                 errors                       ▼                              values, views, libraries
                                         literals, constants

Everything is a pure function of its arguments, bounded in time and memory for any text. Depends on registry/schema
only: the model of a schema, field errors and field paths.
"""
