"""The function libraries of CEL: importing this package enters all of them into its table.

The table is `table.GLOBALS`, `table.MEMBERS` and `table.COSTS`; each module is one library.
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
    sets,
    standard,
    strings,
    table,
    url,
)
