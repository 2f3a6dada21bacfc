"""The authenticators that the settings configure, in kube-apiserver's order."""

from __future__ import annotations

from registry.authentication.authenticator import AdministratorToken, Anonymous, Authentication, Authenticator
from registry.authentication.oidc.external_issuers import ExternalIssuerTokens
from registry.authentication.tokens.bearer import BearerTokens
from registry.authentication.tokens.keys import SigningKeys
from registry.authentication.tokens.service_accounts import AccountTokens
from registry.settings import Settings
from registry.store.store import Store
from registry.webhooks.egress import EgressPolicy


def credentials(settings: Settings, store: Store) -> tuple[Authentication, AccountTokens]:
    """Returns what authenticates users, and what issues service account tokens. Raises BadConfiguration."""
    issuer = settings.service_account_issuer
    accounts = AccountTokens(store, SigningKeys(store), issuer)
    administrator, bearers = AdministratorToken(settings.admin_token_hash()), BearerTokens(store)
    authenticators: tuple[Authenticator, ...] = (administrator, bearers, accounts)
    by_setting = Anonymous(settings.anonymous_auth)
    if settings.authentication_config is None:
        return Authentication(authenticators, lambda: by_setting), accounts
    outside = ExternalIssuerTokens(settings.authentication_config, issuer, EgressPolicy(settings.allow_egress_to))
    return Authentication((*authenticators, outside), lambda: outside.anonymous or by_setting), accounts
