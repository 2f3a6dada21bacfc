"""The settings of the server: declarations.py says what there is, loading.py where values come from."""

from registry.settings.declarations import (
    ENVIRONMENT_PREFIX,
    WILDCARD_HOSTS,
    Declaration,
    Settings,
    SettingsError,
    declarations,
)
from registry.settings.loading import (
    ADDRESS,
    CLIENT,
    DATABASE,
    ENCRYPTED_DATABASE,
    OWN_DATABASE,
    add_flags,
    any_set,
    default_data_dir,
    find_misspelled,
    load,
    markdown,
    to_environment,
)
from registry.settings.values import whole_number

__all__ = [
    "ADDRESS",
    "CLIENT",
    "DATABASE",
    "ENCRYPTED_DATABASE",
    "ENVIRONMENT_PREFIX",
    "OWN_DATABASE",
    "WILDCARD_HOSTS",
    "Declaration",
    "Settings",
    "SettingsError",
    "add_flags",
    "any_set",
    "declarations",
    "default_data_dir",
    "find_misspelled",
    "load",
    "markdown",
    "to_environment",
    "whole_number",
]
