"""Playing plans: each in a tenant of its own, the requests of the plan as they are and mutated ones between them."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.calls import TENANT, Call
from tests.fuzz.checks import Finding, check_answer, in_log
from tests.fuzz.generated import generated
from tests.fuzz.mutations import Mutator
from tests.fuzz.queried import queried
from tests.fuzz.sources import Plan, Variables, plan_of, sources
from tests.fuzz.wire import Answer, Dropped, Wire

_TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"
# How long a set-up waits for what its steps wait for, such as an established definition.
_QUIET_SECONDS = 3.0
_GENERATED = 0.5
_QUERIED = 0.15


class Log:
    """What the server has written since it was last looked at. `None`: a server whose log is not ours to read."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._position = path.stat().st_size if path else 0

    def new(self) -> str:
        if self._path is None or os.stat(self._path).st_size == self._position:
            return ""
        with open(self._path, "rb") as file:
            file.seek(self._position)
            text = file.read()
        self._position += len(text)
        return text.decode("utf-8", "replace")


@dataclass
class Session:
    """A server under test, and what it answered in all: codes by how often."""

    wire: Wire
    log: Log
    token: str
    tag: str
    slow_seconds: float
    codes: Counter[int] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    _tenants: int = 0

    def tenant(self) -> str:
        self._tenants += 1
        name = f"fuzz-{self.tag}-{self._tenants}"
        body = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}}
        answer = self.wire.send(
            Call("POST", _TENANTS, body=body, headers=(("content-type", "application/json"),)), name
        )
        if answer.code not in (201, 409):
            raise RuntimeError(f"no tenant: {answer.code} {answer.body[:500]!r}")
        return name

    def drop(self, tenant: str) -> None:
        self.wire.send(Call("DELETE", f"{_TENANTS}/{tenant}"), tenant)

    def ask(self, call: Call, tenant: str) -> tuple[Answer | None, list[Finding]]:
        """The answer, and what is wrong with it or was logged meanwhile."""
        answer, found = None, []
        try:
            answer = self.wire.send(call, tenant)
        except Dropped as error:
            found = [Finding("dropped", f"dropped {call.method} {error}", f"the connection ended {error}")]
        except TimeoutError:
            found = [Finding("slow", f"hangs {call.method}", "no answer")]
            self.wire.close()
        else:
            self.codes[answer.code] += 1
            self.slowest = max(self.slowest, (answer.seconds, f"{call.method} {call.target(tenant)[:200]}"))
            found = check_answer(call, answer, self.slow_seconds)
        return answer, found + in_log(self.log.new())


@dataclass(frozen=True)
class Found:
    """A finding and the requests of its episode up to it."""

    finding: Finding
    plan: str
    calls: tuple[Call, ...]


def play(session: Session, plan: Plan, mutator: Mutator, requests: int) -> Iterator[Found | None]:
    """Sends about `requests` requests; yields None for each, or what was found by it."""
    rng = mutator.rng
    tenant = session.tenant()
    variables = Variables(rng, plan.name, session.token)
    history: list[Call] = []

    def ask(call: Call) -> tuple[Answer | None, list[Finding]]:
        history.append(call)
        return session.ask(call, tenant)

    def results(found: list[Finding]) -> Iterator[Found | None]:
        yield None
        for finding in found:
            yield Found(finding, plan.name, tuple(history))

    for step in plan.setup:
        call = variables.call(step)
        if call is not None:
            answer, found = ask(call)
            _learn(variables, step, answer)
            yield from results(found)
            _established(session, call, answer, tenant)
    sent, steps = 0, plan.steps
    begin = rng.randrange(len(steps)) if len(steps) > requests else 0
    place = begin
    while sent < requests and steps:
        step = steps[place % len(steps)]
        place += 1
        if place - begin > 4 * requests + len(steps):
            break
        call = variables.call(step)
        if call is None:
            continue
        mutator.note(call)
        for _ in range(rng.choice((1, 1, 2, 3))):
            _, found = ask(mutator.mutated(call))
            sent += 1
            yield from results(found)
        if rng.random() < 0.6 and place <= begin + len(steps):
            answer, found = ask(call)
            _learn(variables, step, answer)
            sent += 1
            yield from results(found)
    session.drop(tenant)


def replay(session: Session, calls: tuple[Call, ...] | list[Call]) -> list[Finding]:
    """What is found by the same requests in another tenant."""
    tenant = session.tenant()
    found = []
    for call in calls:
        answer, new = session.ask(call, tenant)
        found += new
        _established(session, call, answer, tenant)
    session.drop(tenant)
    return found


def _learn(variables: Variables, step: dict[str, object], answer: Answer | None) -> None:
    if answer is not None and not answer.headers.get("content-encoding"):
        variables.learn(step, answer.body)


def _established(session: Session, call: Call, answer: Answer | None, tenant: str) -> None:
    """Waits until the resource of a definition that has been created is served."""
    if answer is None or answer.code != 201 or not call.path.endswith("customresourcedefinitions"):
        return
    try:
        spec = json.loads(answer.body)["spec"]
        version = next(v["name"] for v in spec["versions"] if v.get("served"))
    except (ValueError, KeyError, TypeError, StopIteration):
        return  # in another form than plain JSON
    path = f"/clusters/{TENANT}/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    deadline = time.monotonic() + (0 if any(name == "dryRun" for name, _ in call.query) else _QUIET_SECONDS)
    while time.monotonic() < deadline:
        if session.wire.send(Call("GET", path, (("limit", "1"),)), tenant).code == 200:
            return
        time.sleep(0.005)


def plans(rng: random.Random, *, isolated: bool) -> Iterator[Plan]:
    """Plans without end: each once before any comes again, and between them those that are made up."""
    known = sources()
    for number in itertools.count():
        for source in rng.sample(known, len(known)):
            plan = plan_of(source)
            if isolated or not plan.isolated:
                yield plan
            if rng.random() < _GENERATED:
                yield generated(rng, number)
            if rng.random() < _QUERIED:
                yield queried(rng, number)
