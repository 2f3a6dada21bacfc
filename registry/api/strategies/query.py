"""Queries: created with a question, returned with the answer in their status (api/query/answering.py).

Unlike reviews they are not Go structs: like custom resources, they are decoded, defaulted and validated by a schema.
"""

from __future__ import annotations

from collections.abc import Sequence

from registry.api.strategies.base import Object
from registry.api.strategies.builtin import BuiltinStrategy
from registry.schema.field import FieldError


class QueryStrategy(BuiltinStrategy):
    virtual = True

    def validate(self, obj: Object) -> Sequence[FieldError]:
        errors = self.schema.validate(obj)
        return errors + self._rule_errors(obj, None, errors)
