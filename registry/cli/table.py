"""Text tables in kubectl's format."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="default: %(default)s")


def print_output(typed: dict[str, Any], document: Any, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a document as JSON, or what matters of it as a table: as the flag says."""
    if typed["output"] == "json":
        print(json.dumps(document, indent=2))
    else:
        print_table(header, rows)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints columns as wide as their widest cell; control characters of cells are replaced."""
    printed = [tuple(header), *(tuple(printable(cell) for cell in row) for row in rows)]
    widths = [max(len(row[i]) for row in printed) for i in range(len(header))]
    for row in printed:
        print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def printable(cell: str) -> str:
    """Replaces control characters: the content of objects must not control the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cell)


def cell_text(value: Any) -> str:
    return "<none>" if value is None else value if isinstance(value, str) else json.dumps(value)
