"""The command line: finds the command's module and runs it. Modules of other commands are not imported.

A command's module has `add_arguments(parser)` and `run(typed) -> exit code`, and imports what it needs when it runs.
Errors that the user can fix are one line on stderr and exit code 1; a wrong command line is exit code 2.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

# What each does; its module in registry/cli/commands/ has its name.
COMMANDS: Final = {
    "serve": "run the server",
    "migrate": "migrate the database's tables, or print their revision",
    "recover": "raise all revisions after the database was restored to an earlier state",
    "kubeconfig": "print a kubeconfig of a tenant's administrator",
    "tenant": "create, list, delete and undelete tenants",
    "token": "create, list and revoke bearer tokens of a tenant",
    "psql": "open psql on the database, or print its URL if psql is not installed",
    "sql": "grant, revoke and list read-only logins for SQL reports",
    "encryption": "manage the keys of encryption at rest",
    "cel": "check the validation rules of a definition, and try them on objects",
    "convert": "try the conversion rules of a definition, without a server",
    "query": "list objects by any field, sorted and counted, or group them",
    "history": "show when an object changed, who changed it, and which fields",
    "diff": "show the difference between two revisions of an object",
    "restore": "restore an object to an earlier revision",
    "deleted": "list deleted objects of a kind",
    "undelete": "recreate a deleted object",
    "export": "write objects as manifests that can be applied elsewhere",
    "migrate-storage": "rewrite the objects of a kind at its storage version",
    "protect": "refuse the deletion of a definition, a namespace or a tenant",
    "usage": "show a tenant's usage and limits",
    "tenants": "list tenants with their usage",
    "top": "show the busiest tenants: requests, writes, watches",
    "completion": "print the completion script of a shell",
    "version": "print the version",
}
# Run by `serve --workers` and by the scripts of `completion`, not by users.
_WORKER: Final = "worker"
_COMPLETE: Final = "__complete"


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        parser("").print_help()
        return 0
    if words[:1] == [_WORKER]:
        return _run(_worker, vars(_worker_parser().parse_args(words[1:])))
    if words[:1] == [_COMPLETE]:
        return _run(_complete, {"words": words[1:]})
    named = next((word for word in words if not word.startswith("-")), "")
    if named and named not in COMMANDS:
        return _refuse("", f"unknown command {named!r}", named, COMMANDS)
    arguments_of = parser(named)
    namespace, unknown = arguments_of.parse_known_args(words)
    if unknown:
        flag = unknown[0].startswith("-")
        return _refuse(named, f"unknown {'flag' if flag else 'argument'} {unknown[0]}", unknown[0], flags(arguments_of))
    typed = vars(namespace)
    return _run(_module(typed.pop("command")).run, typed)


def _refuse(command: str, problem: str, word: str, known: Iterable[str]) -> int:
    """Prints what is wrong with the command line, with the most similar word that would be right."""
    like = difflib.get_close_matches(word.partition("=")[0], known, 1)
    name = f"{_name()} {command}".rstrip()
    print(f"{name}: {problem}{f'; did you mean {like[0]}?' if like else ''}", file=sys.stderr)
    print(f"`{name} --help` lists {'the flags' if command else 'the commands'}", file=sys.stderr)
    return 2


def flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the flags of a parser and of its commands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for nested in action.choices.values():
                yield from flags(nested)


def _name() -> str:
    return "kubectl registry" if os.path.basename(sys.argv[0]).startswith("kubectl-") else "registry"


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Returns the whole parser, or with `only` the arguments of that command and just the names of the others."""
    top = argparse.ArgumentParser(
        prog=_name(),
        description="A multi-tenant resource registry: the Kubernetes REST API for custom resources, on PostgreSQL.",
        epilog="Every setting is also an environment variable; `registry serve --help` and docs/settings.md list them.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, does in COMMANDS.items():
        added = commands.add_parser(name, help=does)
        if only is None or only == name:
            _module(name).add_arguments(added)
    return top


def _module(command: str) -> Any:
    return importlib.import_module(f"registry.cli.commands.{command.replace('-', '_')}")


def _run(command: Callable[[dict[str, Any]], int], typed: dict[str, Any]) -> int:
    # A SIGTERM before the server is up must still stop what was started, by unwinding.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return command(typed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `registry history ... | head`
        sys.stdout = None  # so that it is not flushed at exit
        return 141
    except Exception as problem:
        if (message := _message(problem)) is None:
            raise
        print(f"registry: {message}", file=sys.stderr)
        return 1


def _message(problem: Exception) -> str | None:
    """Returns the line for the user; None for an internal error. Only modules that are loaded can have raised."""
    from registry.cli.errors import CommandError, is_unmigrated
    from registry.settings.declarations import SettingsError

    if "psycopg" in sys.modules and is_unmigrated(problem):
        return "the database does not have the tables of this version: run `registry migrate up`"
    return str(problem) if isinstance(problem, CommandError | SettingsError) else None


def _complete(typed: dict[str, Any]) -> int:
    from registry.cli.commands.completion import candidates

    for candidate in candidates(typed["words"], COMMANDS, parser):
        print(candidate)
    return 0


def complete_for_kubectl() -> int:
    """Runs `kubectl_complete-registry`, which kubectl's own completion calls for the plugin."""
    _run(_complete, {"words": sys.argv[1:]})
    print(":4")  # cobra's ShellCompDirectiveNoFileComp
    return 0


def _worker_parser() -> argparse.ArgumentParser:
    worker = argparse.ArgumentParser(prog="registry worker")
    worker.add_argument("--listener", type=int, required=True)
    worker.add_argument("--link", type=int, required=True)
    worker.add_argument("--number", type=int, required=True)
    worker.add_argument("--application", required=True)
    return worker


def _worker(typed: dict[str, Any]) -> int:
    import gc
    import os

    gc.disable()  # as in serve.py
    from registry.cli.server_process import work
    from registry.settings.loading import load

    return work(load({}, os.environ), **typed)
