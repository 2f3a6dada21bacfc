"""`registry convert check FILE`: tries conversion rules on sample objects, without a server."""

from __future__ import annotations

import argparse
import sys
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.cli.errors import CommandError
from registry.cli.manifests import documents_of, read_definition

if TYPE_CHECKING:
    from registry.conversion.declarative.plan import ConversionPlan
    from registry.definitions.model import Definition

Object = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="check a definition's rules, and convert sample objects to each version and back",
        description="Checks the conversion rules of the CustomResourceDefinition in the files as the server would, "
        "converts each other object in them to every version and back, and prints what it becomes. The "
        "exit code is 1 if the rules are refused, a conversion fails, or an object comes back changed.",
    )
    check.add_argument(
        "file", nargs="+", help="YAML of one definition and samples, single or in a List, in one file or several"
    )
    check.add_argument("--quiet", action="store_true", help="print the verdicts, not the objects")


def run(typed: dict[str, Any]) -> int:
    documents = [document for name in typed["file"] for document in documents_of(Path(name))]
    definitions = [d for d in documents if d.get("kind") == "CustomResourceDefinition"]
    if len(definitions) != 1:
        raise CommandError(f"there must be one CustomResourceDefinition in the files, not {len(definitions)}")
    samples = [d for d in documents if d.get("kind") != "CustomResourceDefinition"]
    return check(definitions[0], samples, quiet=typed["quiet"])


def check(document: Object, samples: list[Object], *, quiet: bool) -> int:
    from registry.conversion.declarative.check import losses_of, validate_rules
    from registry.conversion.declarative.plan import ConversionPlan
    from registry.definitions.compiled import compile_definition
    from registry.definitions.conversion import RULES

    crd, errors = read_definition(document)
    if RULES not in (crd["metadata"].get("annotations") or {}):
        raise CommandError(f"the definition has no annotation {RULES}")
    errors = errors or validate_rules(crd)
    for refusal in errors:
        print(f"refused: {refusal.message()}", file=sys.stderr)
    if errors:
        return 1
    for loss in losses_of(crd):
        print(f"# acknowledged loss {loss}")
    definition = compile_definition(crd)
    schemas = {name: version.schema for name, version in definition.versions.items()}
    plan = ConversionPlan(definition.group, definition.conversion_rules, schemas)
    for source, target in permutations([version["name"] for version in crd["spec"]["versions"]], 2):
        if plan.converts_back(source, target):
            print(
                f"# from {source} to {target}: not proven to be undone by the way back, so each object is converted "
                "back too, which takes longer"
            )
    # All of them, so that each is printed.
    verdicts = [_try(definition, plan, sample, quiet=quiet) for sample in samples]
    return 0 if all(verdicts) else 1


def _try(definition: Definition, plan: ConversionPlan, sample: Object, *, quiet: bool) -> bool:
    """Returns whether a sample converts to each version and back."""
    from registry.codec.structs.base import StructDecodeError
    from registry.codec.yaml_encode import encode_yaml
    from registry.conversion.errors import ConversionError
    from registry.schema.objectmeta.decoding import decode_object_meta

    group, _, own = str(sample.get("apiVersion") or "").rpartition("/")
    try:
        metadata = sample.get("metadata")
        sample["metadata"] = decode_object_meta({} if metadata is None else metadata, unknown=None)
    except StructDecodeError as error:
        print(f"{sample.get('kind')}: {error}", file=sys.stderr)
        return False
    name = sample["metadata"].get("name") or ""
    if group != definition.group or own not in definition.versions or sample.get("kind") != definition.names.kind:
        print(f"{sample.get('kind')} {name}: is not of {definition.name} in any of its versions", file=sys.stderr)
        return False
    definition.versions[own].schema().prune_and_default(sample)
    well = True
    for version in definition.versions:
        if version == own:
            continue
        try:
            became = plan.convert(sample, f"{group}/{version}")
            again = plan.convert(became, f"{group}/{own}")
        except ConversionError as error:
            print(f"{name}: {error}", file=sys.stderr)
            well = False
            continue
        exact = again == sample
        well = well and exact
        print(f"# {name}: {own} to {version}, and back: {'the same' if exact else 'CHANGED'}")
        if not quiet:
            print(encode_yaml(became).decode() + "---")
            if not exact:
                print(f"# {name} back at {own}:\n{encode_yaml(again).decode()}---")
    return well
