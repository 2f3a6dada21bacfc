"""Typing into the console's editor."""

from __future__ import annotations

import json

from tests.console.browser import Page

EDITOR_CONTENT = "document.querySelector('.editor')?.shadowRoot.querySelector('.cm-content')"
# Selects a text of one line of the editor, which may be in several elements.
_SELECT = """(text => {
    const line = [...EDITOR.querySelectorAll('.cm-line')].find(one => one.textContent.includes(text));
    const begin = line.textContent.indexOf(text), end = begin + text.length;
    const range = document.createRange(), walk = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    for (let at = 0, node; (node = walk.nextNode()); at += node.length) {
        if (at <= begin && begin < at + node.length) range.setStart(node, begin - at);
        if (at < end && end <= at + node.length) range.setEnd(node, end - at);
    }
    EDITOR.focus();
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
})""".replace("EDITOR", EDITOR_CONTENT)


def edit(page: Page, old: str, new: str) -> None:
    """Selects the first `old` of the editor and types `new`."""
    page.wait(f"{EDITOR_CONTENT}?.innerText.includes({json.dumps(old)})")
    page.evaluate(f"{_SELECT}({json.dumps(old)})")
    page.type(new)
    page.wait(f"{EDITOR_CONTENT}?.innerText.includes({json.dumps(new)})")
