"""`registry completion bash|zsh|fish`, and what the scripts ask: the candidates for the last word of a command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from registry.cli.errors import CommandError

_SCRIPTS: Final = {
    "bash": """\
_registry() {
    local IFS=$'\\n'
    COMPREPLY=($(registry __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _registry registry
""",
    "zsh": """\
#compdef registry
_registry() {
    local -a found
    found=(${(f)"$(registry __complete "${(@)words[2,$CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _registry registry
""",
    "fish": """\
function __registry_complete
    set -l found (registry __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c registry -f -a '(__registry_complete)'
""",
}
_HOW: Final = """\
bash: echo 'source <(registry completion bash)' >> ~/.bashrc
zsh:  echo 'source <(registry completion zsh)' >> ~/.zshrc
fish: registry completion fish > ~/.config/fish/completions/registry.fish
kubectl completes `kubectl registry` by itself, where kubectl_complete-registry is on the PATH."""
# The most object names to offer.
_MAX_NAMES: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Prints the completion script of a shell."
    parser.epilog = _HOW
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=sorted(_SCRIPTS))


def run(typed: dict[str, Any]) -> int:
    print(_SCRIPTS[typed["shell"]], end="")
    return 0


def candidates(
    words: Sequence[str], commands: Collection[str], parser_of: Callable[[str], argparse.ArgumentParser]
) -> list[str]:
    """Returns completions of the last of `words`, which may be empty. `parser_of` returns a command's parser; of "",
    one without flags."""
    *before, last = words or [""]
    current = parser_of(before[0] if before and before[0] in commands else "")
    positionals: list[str] = []
    value_of: argparse.Action | None = None
    for word in before:
        flags, nested = current._option_string_actions, _commands(current)
        if value_of is not None:
            value_of = None
        elif word.startswith("-"):
            action = flags.get(word)
            value_of = action if action is not None and action.nargs != 0 else None
        elif word in nested:
            current = nested[word]
        else:
            positionals.append(word)
    return sorted(offer for offer in _offers(current, positionals, value_of, last) if offer.startswith(last))


def _offers(
    parser: argparse.ArgumentParser, positionals: list[str], value_of: argparse.Action | None, last: str
) -> Iterable[str]:
    if value_of is not None:
        return [str(choice) for choice in value_of.choices or ()]
    if last.startswith("-"):
        return parser._option_string_actions
    if commands := _commands(parser):
        return commands
    actions = [action for action in parser._actions if not action.option_strings]
    if any(action.dest in ("target", "kind") for action in actions):
        several = any(action.dest == "kind" and action.nargs == "+" for action in actions)
        return _objects([] if several else positionals, names=any(action.dest == "target" for action in actions))
    at = len(positionals)
    return [str(choice) for choice in actions[at].choices or ()] if at < len(actions) else ()


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands: dict[str, argparse.ArgumentParser] = action.choices
            return commands
    return {}


def _objects(positionals: list[str], *, names: bool) -> Iterable[str]:
    """Returns kinds that the kubeconfig's server serves, or names of objects of one; nothing if it is unreachable."""
    from registry.cli.kubeconfig_client import open_session
    from registry.cli.resource_names import find_resource, resources

    try:
        session = open_session({})
        if not positionals:
            return {resource.plural for resource in resources(session.client)}
        if len(positionals) > 1 or not names:
            return ()
        resource = find_resource(session.client, positionals[0])
        page = session.client.request("GET", f"{resource.path(session.namespace)}?limit={_MAX_NAMES}")
        return [item["metadata"]["name"] for item in page["items"]]
    except CommandError:
        return ()
