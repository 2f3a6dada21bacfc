"""CEL's function libraries: importing this package registers all of them.

The registries are `table.GLOBALS`, `table.MEMBERS` and `table.COSTS`; each module is one library.
"""

from registry.cel.ext import (  # noqa: F401
    clock,
    conversions,
    formatting,
    lists,
    maps,
    names,
    net,
    optionals,
    ordering,
    quantity,
    regex,
    semver,
    standard,
    strings,
    table,
    url,
)
