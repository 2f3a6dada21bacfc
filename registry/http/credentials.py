"""The ways of authentication that the settings ask for, in kube-apiserver's order."""

from __future__ import annotations

from registry.authentication.authenticator import AdministratorToken, Anonymous, Authentication, Authenticator
from registry.authentication.oidc.external_issuers import OutsideTokens
from registry.authentication.tokens.bearer import BearerTokens
from registry.authentication.tokens.keys import SigningKeys
from registry.authentication.tokens.service_accounts import AccountTokens
from registry.settings import Settings
from registry.store.store import Store
from registry.webhooks.egress import EgressPolicy


def credentials(settings: Settings, store: Store) -> tuple[Authentication, AccountTokens]:
    """Who knows users, and who makes tokens of service accounts. Raises BadConfiguration."""
    issuer = settings.service_account_issuer
    accounts = AccountTokens(store, SigningKeys(store), issuer)
    authenticators: list[Authenticator] = [
        AdministratorToken(settings.admin_token_hash()),
        BearerTokens(store),
        accounts,
    ]
    by_setting = Anonymous(settings.anonymous_auth)
    authentication = Authentication(authenticators, by_setting)
    if settings.authentication_config is not None:

        def took_up(anonymous: Anonymous | None) -> None:
            authentication.anonymous = anonymous or by_setting

        authenticators.append(
            OutsideTokens(settings.authentication_config, issuer, EgressPolicy(settings.allow_egress_to), took_up)
        )
    return authentication, accounts
