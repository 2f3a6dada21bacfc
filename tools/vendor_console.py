"""Bundles the console's third-party code: `python tools/vendor_console.py` (needs node, npm and the npm registry).

tools/console/package-lock.json pins each package by version and hash. What browsers load is written to
registry/console/static/vendor and committed there, so that neither users nor the server need node:

    BUNDLES     one ES module each, from the packages that it names
    LICENSES    the licences of everything that is in a bundle
    manifest    versions, and a SHA-256 of each file, which tests/console/test_vendor.py checks

axe-core, with which the tests look for faults of accessibility, goes to tests/console/vendor. A version is raised in
tools/console/package.json, by `npm install --package-lock-only` in its folder, and by running this again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PINNED: Final = Path(__file__).with_name("console")
VENDOR: Final = ROOT / "registry/console/static/vendor"
FOR_TESTS: Final = ROOT / "tests/console/vendor"
MANIFEST: Final = "manifest.json"
LICENSES: Final = "LICENSES.txt"
# Of each package what the console imports, so that the rest is left out.
BUNDLES: Final = {
    "preact.js": """
        import { h } from "preact";
        import htm from "htm";
        export { h, render, Component, Fragment, createContext } from "preact";
        export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useContext } from "preact/hooks";
        export const html = htm.bind(h);
    """,
    "yaml.js": """
        export { parseDocument, parseAllDocuments, stringify, LineCounter, isMap, isSeq, isPair, isScalar } from "yaml";
    """,
    "codemirror.js": """
        export { EditorState } from "@codemirror/state";
        export { EditorView, keymap, lineNumbers, drawSelection, highlightActiveLine, highlightSpecialChars }
            from "@codemirror/view";
        export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
        export { syntaxHighlighting, HighlightStyle, foldGutter, foldKeymap, indentOnInput, bracketMatching }
            from "@codemirror/language";
        export { yaml } from "@codemirror/lang-yaml";
        export { linter, lintGutter, lintKeymap, forceLinting } from "@codemirror/lint";
        export { autocompletion, completionKeymap, startCompletion } from "@codemirror/autocomplete";
        export { search, searchKeymap, highlightSelectionMatches } from "@codemirror/search";
        export { MergeView, unifiedMergeView } from "@codemirror/merge";
        export { tags } from "@lezer/highlight";
    """,
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(PINNED / file, folder)
        _run(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
        bundled: set[str] = set()
        VENDOR.mkdir(parents=True, exist_ok=True)
        for bundle, source in BUNDLES.items():
            bundled |= _bundle(folder, bundle, source)
        FOR_TESTS.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "node_modules/axe-core/axe.min.js", FOR_TESTS)
        (VENDOR / LICENSES).write_text(_licenses(folder, bundled))
        versions = {package: _package(folder, package)["version"] for package in sorted(bundled)}
    files = {file: _sha256(VENDOR / file) for file in sorted([*BUNDLES, LICENSES])}
    manifest = {"packages": versions, "sha256": files}
    (VENDOR / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def _bundle(folder: Path, bundle: str, source: str) -> set[str]:
    """Writes one bundle; the packages that are in it."""
    (folder / f"entry-{bundle}").write_text(source)
    _run(
        folder,
        *("node_modules/.bin/esbuild", f"entry-{bundle}", "--bundle", "--format=esm", "--minify", "--target=es2022"),
        *("--legal-comments=none", "--charset=utf8", "--metafile=meta.json", "--log-level=warning"),
        *(
            f"--banner:js=/* Bundled by tools/vendor_console.py. Licences: {LICENSES} */",
            f"--outfile={VENDOR / bundle}",
        ),
    )
    inputs = json.loads((folder / "meta.json").read_text())["inputs"]
    return {_package_of(path) for path in inputs if path.startswith("node_modules/")}


def _package_of(path: str) -> str:
    """'node_modules/@codemirror/view/dist/index.js' is of '@codemirror/view'."""
    parts = path.split("/")[1:]
    return "/".join(parts[: 2 if parts[0].startswith("@") else 1])


def _licenses(folder: Path, packages: set[str]) -> str:
    texts = []
    for package in sorted(packages):
        about = _package(folder, package)
        (file,) = [f for f in (folder / "node_modules" / package).iterdir() if f.name.upper().startswith("LICEN")]
        texts.append(f"{package} {about['version']} ({about['license']})\n\n{file.read_text().strip()}\n")
    return f"\n{'-' * 78}\n\n".join(texts)


def _package(folder: Path, package: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "node_modules" / package / "package.json").read_text())
    return found


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
