"""History of objects, as subresources that Kubernetes does not have: history, restore, undelete, deleted.

    GET  .../widgets/a/history                                     its changes, newest first, with differences
    GET  .../widgets/a?atResourceVersion=7                         its state at a revision (right: history)
    POST .../widgets/a/restore   {"resourceVersion": "7"}          restores an earlier state by an ordinary update
    POST .../widgets/a/undelete                                    creates it again as it was, with a new uid
    GET  .../widgets?deleted=true                                  deleted objects (right: list widgets/deleted);
                                                                   selects by labels, name and namespace

They reach as far back as the change log. A restored object is written like any other: decoded, pruned, validated and
admitted under today's definitions and policies. Kinds in BARRED have no history, and sensitive fields of others are
left out (as in SQL reports). Documented in docs/history.md.

Begin with subresources.py.
"""
