"""Keeps words that this project has retired out of code, tests and pages: `make words`.

docs/style.md says which words to use, and why. words_allowed.txt beside this file lists what is still there: on
each line a count, a file and a word. Counts only go down:

    python tools/words.py             fails where a file has more of a word than it is allowed
    python tools/words.py --update    lowers the counts to what is there

A file that has been moved takes the allowance of the one that is gone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = Path(__file__).with_name("words_allowed.txt")
READ = re.compile(
    r"(README|CONTRIBUTING|SECURITY|CHANGELOG)\.md"
    r"|(registry|docs|migrations|benchmarks|tests|tools)/.*\.(py|sql|md|yaml)"
)
# Recorded elsewhere, of a release that is out, or about these words.
NOT_OURS = re.compile(
    r"docs/(style\.md|facts/)|tests/conformance/(scenarios|kubectl/transcripts)/|tests/fuzz/corpus/|migrations/versions/r\d+_functions\.sql"
    r"|tests/test_words\.py|tools/words\.py"
)

PARTICIPLES = (
    "answered|asked|begun|brought|carried|chosen|counted|done|given|judged|kept|looked|made|said|seen|sent|settled|shown"
    "|taken|told|tried|written"
)

# As names of functions, where they are all of the name.
BARE_PARTICIPLES = (
    "annotated|collected|ended|filled|finished|limited|mutated|observed|patched|received|subscribed|tagged|unblocked|unheard"
    "|wanted"
)

# Names that say how a value came about instead of what it is.
LOCALS = "asked|brought|carried|found|given|gone|judged|kept|made|owed|said|told"

# A word as it is counted: a pattern, and what to write instead. In words of prose an underscore is a blank, because
# names of tests are prose, too.
WORDS: dict[str, tuple[str, str]] = {
    "anew": (r"\banew\b", "again"),
    "besides": (r"\bbesides\b", "in addition, also"),
    "by turns": (r"\bby turns\b", "alternately, interleaved"),
    "himself": (r"\b(himself|herself)\b", "themselves, itself"),
    "judged": (r"\bjudg(es?|ed|ing|ements?)(\b|[A-Z])", "validate, evaluate, decide; re-evaluated"),
    "leads nowhere": (r"\bleads? nowhere\b", "an unknown path; has no effect"),
    "let pass": (r"\b(is|are|was|were|be) let (pass|through)\b", "is accepted"),
    "that is none": (r"\bthat (is|was) none\b", "an invalid or unknown ..."),
    "told": (r"\b(un)?told\b", "reported, sent, notified"),
    "whoever": (r"\bwho(m)?ever\b", "any client that, every caller"),
    "Absent owners": (r"\bAbsentOwners\b", "AbsentOwnerCache"),
    "Controlled": (r"\bControlled\b|\bcontrolled: ControllerClient\b", "ControllerClient"),
    "across": (r"\bacross_\w|\bAcross[A-Z]|\bclass Across\b|\bis_across\b", "wildcard_..."),
    "Duties": (r"\bDuties\b|\bOwed\b", "ProcessHeartbeats, MissedChange"),
    "Face": (r"\b(Face|Sight|Eyes|Early)\b", "AdmissionView; EventFilter, TenantVisibility; PredecodedBody"),
    "furnish": (r"furnish", "ensure_defaults, TenantBootstrapper"),
    "Lane": (r"\bLanes?\b|_lanes?\b", "WriterConnection"),
    "nudge": (r"nudg(e|ing)", "enqueue"),
    "settle": (r"\b(un)?settl(e|es|ed|ing)\b|[a-z]Unsettled|\bSettling[A-Z]", "reconcile; pending, unstable"),
    "Look": (r"\blook_again\b|\blook_seconds\b|\bLook\b\.|\bOutside[A-Z]", "reload, refresh, wake; Check; external"),
    "Slices": (r"\bSlices\b", "TimeSlice"),
    "Turns": (r"\bTurns\b", "FairQueue, ObjectLocks"),
    "Unfinished": (r"\bUnfinished\b", "Requeue"),
    "unsay": (r"\bunsay\b", "RetryMemo, or an Outcome that is not kept"),
    "participle": (rf"\bdef _?({PARTICIPLES})(_\w+)?\(", "a verb for a function that acts, a noun for what it returns"),
    "bare participle": (
        rf"\bdef _?({BARE_PARTICIPLES})\(",
        "a verb for a function that acts, a noun for what it returns",
    ),
    "local": (rf"^ +({LOCALS})(: [^=\n]+)? [+|]?= ", "a noun for what the variable holds"),
}
# Names of things are written as they are, words of prose in any case.
NAMES = {word for word in WORDS if word[0].isupper() or word in ("across", "local", "participle", "bare participle")}
PATTERNS = {
    word: re.compile(pattern, re.MULTILINE if word in NAMES else re.IGNORECASE) for word, (pattern, _) in WORDS.items()
}
# Words that are retired in one folder only.
FOLDERS = {"local": "registry/", "bare participle": "registry/"}

Counts = Mapping[tuple[str, str], int]


def count(text: str) -> Counter[str]:
    """How often each retired word is in a text."""
    prose = text.replace("_", " ")
    places = {word: PATTERNS[word].findall(text if word in NAMES else prose) for word in WORDS}
    return Counter({word: len(found) for word, found in places.items() if found})


def parse(text: str) -> dict[tuple[str, str], int]:
    """`2 registry/api/served.py judged` as {("registry/api/served.py", "judged"): 2}."""
    rows = (line.split(" ", 2) for line in text.splitlines() if line and not line.startswith("#"))
    return {(file, word): int(number) for number, file, word in rows}


def excess(found: Counts, allowed: Counts, files: Iterable[str]) -> dict[tuple[str, str], int]:
    """What is beyond its allowance, with the count allowed. Files that are gone leave theirs to new ones."""
    there = set(files)
    left = Counter[str]()
    for (file, word), number in allowed.items():
        if file not in there:
            left[word] += number
    listed = {file for file, _ in allowed}
    wrong = {}
    for (file, word), number in sorted(found.items()):
        permitted = allowed.get((file, word), 0)
        if number > permitted and file not in listed and left[word] >= number:
            left[word] -= number
        elif number > permitted:
            wrong[file, word] = permitted
    return wrong


def lowered(found: Counts, allowed: Counts, files: Iterable[str]) -> dict[tuple[str, str], int]:
    """The allowances after an update: what is there, where that is not beyond what was allowed."""
    beyond = excess(found, allowed, files)
    return {place: beyond.get(place, number) for place, number in found.items() if beyond.get(place, number)}


def main(arguments: list[str]) -> int:
    texts = {
        name: (ROOT / name).read_text() for name in _tracked() if READ.fullmatch(name) and not NOT_OURS.match(name)
    }
    found = {
        (file, word): number
        for file, text in texts.items()
        for word, number in count(text).items()
        if file.startswith(FOLDERS.get(word, ""))
    }
    allowed = parse(ALLOWED.read_text()) if ALLOWED.exists() else dict(found)
    if "--update" in arguments:
        rows = sorted((file, word, number) for (file, word), number in lowered(found, allowed, texts).items())
        ALLOWED.write_text(HEAD + "".join(f"{number} {file} {word}\n" for file, word, number in rows))
    wrong = excess(found, allowed, texts)
    for (file, word), permitted in wrong.items():
        for number, line in enumerate(texts[file].splitlines(), 1):
            if count(line)[word]:
                print(f"{file}:{number}: {line.strip()[:90]}")
        print(f"    {word!r}: {found[file, word]} here, {permitted} allowed; write instead: {WORDS[word][1]}")
    return 1 if wrong else 0


HEAD = """\
# Retired words that are still there: the count, the file, the word. `python tools/words.py --update` lowers the counts;
# they never go up.
"""


def _tracked() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    names = listed.stdout.split("\0") if listed.returncode == 0 else [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")]
    return [name for name in names if name and (ROOT / name).is_file()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
