"""TokenRequests and TokenReviews. Neither is stored.

Follows kubernetes pkg/apis/authentication/{types,validation/validation}.go.
"""

from __future__ import annotations

from registry.api.strategies.base import Object
from registry.api.strategies.review import ReviewStrategy
from registry.api.strategies.typed import TypedStrategy
from registry.builtin.structs import AUTHENTICATION
from registry.schema.field import FieldError


class TokenRequestStrategy(TypedStrategy):
    struct = AUTHENTICATION["TokenRequest"]
    virtual = True


class TokenReviewStrategy(ReviewStrategy):
    struct = AUTHENTICATION["TokenReview"]

    def errors(self, obj: Object) -> list[FieldError]:
        return []
