"""The picture and the table of packages in docs/architecture.md are those of the tree and of the import contracts."""

from __future__ import annotations

import ast
import re
import tomllib

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()


def test_the_picture_shows_the_layers_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c.get("containers") == ["registry"])
    picture = PAGE.split("┌", 1)[1].split("└", 1)[0]
    rows = re.findall(r"^    │ ((?:\w+)(?: │ \w+)*)  ", picture, re.MULTILINE)
    assert [set(row.split(" │ ")) for row in rows] == [set(layer.split(" | ")) for layer in layers]


def test_the_table_has_every_package() -> None:
    section = PAGE.split("\n## Packages\n", 1)[1].split("\n## ", 1)[0]
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    listed = [name for cell in first_cells for name in re.findall(r"`([\w.]+)`", cell)]
    top = ROOT / "registry"
    packages = {
        ".".join(folder.relative_to(top).parts)
        for folder in top.rglob("*")
        if folder.is_dir() and any(f.suffix in (".py", ".sql", ".yaml") for f in folder.iterdir())
    }
    modules = {file.stem for file in top.glob("*.py")} - {"__init__", "__main__"}
    assert sorted(listed) == sorted({p for p in packages if "__pycache__" not in p} | modules)


def test_every_package_says_what_it_does() -> None:
    inits = sorted((ROOT / "registry").rglob("__init__.py"))
    assert len(inits) > 40
    assert [str(file) for file in inits if not ast.get_docstring(ast.parse(file.read_text()))] == []


def test_each_step_of_a_chain_names_a_file() -> None:
    """That the file is there is checked in test_references.py."""
    chains = PAGE.split("\n## A write", 1)[1]
    steps = re.findall(r"^\| (?!file|---)(\S+) \|", chains, re.MULTILINE)
    assert len(steps) > 25
    assert [step for step in steps if not re.fullmatch(r"registry/[\w/]+\.(?:py|sql)", step)] == []


def test_each_class_has_a_name_of_its_own() -> None:
    """A reader who searches for a class, private ones among them, finds one."""
    files: dict[str, list[str]] = {}
    for file in sorted((ROOT / "registry").rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(str(file.relative_to(ROOT)))
    assert {name: where for name, where in files.items() if len(where) > 1} == {}
