"""What holds for the whole tree: who may import whom, and what no file may name."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.settings.loading import markdown
from tests.scheduling import FIRST, TOGETHER

ROOT = Path(__file__).resolve().parents[1]

# Written apart, so that this file does not find itself.
REGISTRY_HOSTS = ("pypi" + ".org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com", "proxy.golang" + ".org",
                  "rubygems" + ".org", "crates" + ".io", "test.pypi" + ".org")  # fmt: skip
MACHINE_PATHS = re.compile(r"(?<![\w.}])/(?:" + "work/(?:main|shared|\\.)" + r"|home/\w+/|Users/\w+/|root/\w)")

STARTS = ("/" + "work/", "/" + "home/", "/" + "Users/", "/" + "root/")  # Found faster than the pattern.


def _tracked() -> list[Path]:
    """The files of the repository; all but hidden and made ones where it is no git checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") or part == "__pycache__" or part.endswith(".egg-info")
                    for part in path.relative_to(ROOT).parts)
    ]  # fmt: skip


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    found = {str(path.relative_to(ROOT)): _read(path) for path in _tracked()}
    assert "registry/settings/declarations.py" in found
    return found


@pytest.mark.slow
def test_the_layers_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([str(program), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def _imported(source: str) -> set[str]:
    """The modules that a module imports, also those of `from package import module`."""
    nodes = list(ast.walk(ast.parse(source)))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_no_test_module_is_imported_by_another(texts: dict[str, str]) -> None:
    """What several of them use has a module of its own, and fixtures are found without an import."""
    imports = [(name, module) for name, text in texts.items() if re.match(r"tests/.*\.py$", name)
               for module in _imported(text) if re.search(r"^tests\.(.*\.)?(test_\w+|conftest)$", module)]  # fmt: skip
    assert imports == []


# Verbs of clients and containers, of which only some check anything.
_VAGUE = {"get", "post", "put", "patch", "delete", "request", "append", "add", "close", "run", "answer", "__init__"}


def _functions(source: str) -> Iterator[tuple[str, set[str]]]:
    """Each function by its name, with what it calls; `assert` is among that."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes = list(ast.walk(function))
            calls = {getattr(n.func, "attr", getattr(n.func, "id", "")) for n in nodes if isinstance(n, ast.Call)}
            yield function.name, calls | {"assert" for n in nodes if isinstance(n, ast.Assert)}


def test_every_test_asserts_something(texts: dict[str, str]) -> None:
    """A test that only an exception can fail does not say what it expects."""
    functions = [(file, *found) for file, text in texts.items() if re.match(r"tests/.*\.py$", file)
                 for found in _functions(text)]  # fmt: skip
    asserting, before = {"assert", "raises", "warns", "fail"}, 0
    while len(asserting) > before:
        before = len(asserting)
        asserting |= {name for _, name, calls in functions if calls & asserting} - _VAGUE
    assert [(file, name) for file, name, calls in functions
            if name.startswith("test_") and not calls & asserting] == []  # fmt: skip


def _single_sleeps(node: ast.AST, *, repeated: bool = False) -> Iterator[int]:
    """The lines of sleeps outside of loops."""
    for child in ast.iter_child_nodes(node):
        within = repeated and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        within |= isinstance(child, ast.For | ast.AsyncFor | ast.While)
        match child:
            case ast.Call(ast.Attribute(attr="sleep"), [seconds]) if not within:
                if ast.unparse(seconds) not in ("0", "NEVER"):
                    yield child.lineno
        yield from _single_sleeps(child, repeated=within)


def test_a_sleep_that_waits_for_no_state_says_what_for(texts: dict[str, str]) -> None:
    """What waits for a state looks again and again. One sleep is an event of its own, or proves that nothing happens,
    and a comment on its line or the one above says so."""
    found = [(name, line) for name, text in texts.items() if re.match(r"tests/.*\.py$", name) and ".sleep(" in text
             for line in _single_sleeps(ast.parse(text)) if "#" not in "".join(text.splitlines()[line - 2 : line])]  # fmt: skip
    assert found == []


def test_no_file_names_a_package_registry(texts: dict[str, str]) -> None:
    assert [(name, host) for name, text in texts.items() for host in REGISTRY_HOSTS if host in text] == []


def test_no_file_names_a_local_path(texts: dict[str, str]) -> None:
    named = [(name, text.count("\n", 0, hit.start()) + 1, hit.group())
             for name, text in texts.items() if any(start in text for start in STARTS)
             for hit in MACHINE_PATHS.finditer(text)]  # fmt: skip
    assert named == []


@pytest.mark.parametrize(
    "parts", [("see ", "work", "shared", "x"), ("x=", "home", "anna", "y"), ("cd ", "root", "src")]
)
def test_a_local_path_would_be_found(parts: tuple[str, ...]) -> None:
    """The lines are joined here, since this file may not contain them either."""
    assert MACHINE_PATHS.search("/".join(parts))


def test_the_page_of_settings_agrees_with_the_code() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == markdown(), "python -m registry.settings > docs/settings.md"


def test_test_files_scheduled_first_exist() -> None:
    assert [group for group in (*FIRST, *TOGETHER) if not (ROOT / group).exists()] == []


def test_the_clock_of_one_module_is_replaced(texts: dict[str, str]) -> None:
    """A clock that is replaced in the module `time` is replaced for all: another thread of the test's process gets a
    value of it, or takes it away."""
    shared = re.compile(r'(setattr|patch)\("registry\.[\w.]*\.(time|asyncio|random|os)\.')
    found = [name for name, text in texts.items() if re.match(r"tests/.*\.py$", name) and shared.search(text)]
    assert not found, "replace a name that the module itself has imported"


def test_no_files_import_each_other() -> None:
    """Import contracts leave out what only types need (TYPE_CHECKING), and most files of one package."""
    paths = [path for path in _tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "registry")]
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        imports = [node for node in ast.walk(ast.parse(_read(path))) if isinstance(node, ast.ImportFrom)]
        found = {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
        found = {one if one in files else one.rpartition(".")[0] for one in found}
        graph[name] = {one for one in found if one in files}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the files
