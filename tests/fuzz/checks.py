"""What counts as a finding: in an answer, and in what the server has logged meanwhile.

A 500 is one unless kube-apiserver itself answers the request with a 500 in these words; each exception says where it
does. Words of Python and of PostgreSQL's drivers are findings in any answer, unless the client had sent them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import cbor2
import yaml

from tests.fuzz.calls import Call
from tests.fuzz.wire import Answer


class Finding(NamedTuple):
    """`sign` is the same for the same fault; `detail` is for the reader."""

    kind: str
    sign: str
    detail: str


# (status, pattern of the message, reason)
ALLOWED = tuple(
    (code, re.compile(pattern, re.DOTALL), why)
    for code, pattern, why in (
        (
            500,
            r"conversion webhook for .* failed: ",
            "apiextensions conversion/webhook_converter.go: errors without a reason",
        ),
        (500, r"conversion of .* from .* to .* failed: ", "a conversion rule fails, as a webhook does"),
        (500, r"failed calling webhook ", "admission plugin/webhook/generic: failurePolicy Fail gives InternalError"),
        (500, r"request to convert CR from an invalid group/version: ", "apiextensions conversion/converter.go"),
        (500, r"content is not a list", "handlers/response.go: a list asked of one custom resource"),
        (500, r"strconv\.ParseUint: parsing ", "storage/api_object_versioner.go: the resourceVersion of an update"),
        (
            500,
            r"the spec replicas field \".*\" does not exist",
            "apiextensions etcd.go: ScaleREST of an object without",
        ),
        (
            500,
            r"failed to (create typed (patch|live)|convert new) object",
            "apply: fields that the schema lacks, or has otherwise now (fieldmanager/structuredmerge.go)",
        ),
        (500, r"expected a .*, but received a ", "strategicpatch: mergepatch.ErrBadArgType, which has no reason"),
        (500, r"unknown patch type: .* in map: ", "strategicpatch: handleDirectiveInMergeMap, which has no reason"),
        (500, r"list element types are not identical: ", "strategicpatch: sliceElementType, which has no reason"),
        (500, r"map: .* does not contain declared merge key: ", "strategicpatch: mergepatch.ErrNoMergeKey"),
        (500, r"The order in patch list:", "strategicpatch: validatePatchWithSetOrderList, which has no reason"),
        (
            500,
            r"Object 'apiVersion' is missing in 'object has no apiVersion field'",
            "patch.go: a patch without apiVersion",
        ),
        (
            500,
            r"resourceVersion should not be set on objects to be created$",
            "storage/errors.go: a create with a revision",
        ),
        (
            500,
            r"unsupported role reference kind: ",
            "rbac/validation/rule.go: a binding without roleRef (a running 1.36 answers so)",
        ),
        (500, r"failed to create RequestInfo: unable to determine kind and namespace ", "filters/requestinfo.go"),
        (
            500,
            r"invalid resource name ",
            "client-go rest/request.go: the namespace lifecycle reads namespaces of any name",
        ),
        (500, r"error resolving resource", "customresource_handler.go: a definition that is being changed"),
        (
            503,
            r"(service unavailable|error trying to reach service: .*)\n?$",
            "kube-aggregator: a backend that is away",
        ),
        (504, r"Too large resource version", "cacher: a revision of the future is waited for, then 504"),
    )
)

# Texts that only an implementation in Python on PostgreSQL can come up with.
_LEAKS = re.compile(
    r"Traceback \(|\b(?:Type|Key|Attribute|Value|Index|Assertion|Recursion|Overflow|Lookup|Name|OS|Runtime|Memory|"
    r"ZeroDivision|NotImplemented|UnicodeDecode|UnicodeEncode|Timeout|StopIteration|Unbound[A-Za-z]*)Error\b(?!\")|"
    r"object has no attribute|NoneType|<class '|<function |<bound method|<[A-Za-z_.]+ object at 0x|psycopg|asyncpg|"
    r"sqlalchemy|LINE \d+:|relation \"|syntax error at or near|invalid input syntax for type|dict_keys\(|dict_values\(|"
    r"\.py\", line|unhashable type|must be str, not|can only concatenate|got multiple values for|frozenset\(|"
    r"mappingproxy\(|"
    r"datetime\.datetime|Decimal\('|codec can't|surrogates not allowed|positional argument|has no len\(\)|"
    r"is not subscriptable|' object is not |Exceeds the limit \(|invalid literal for|could not convert string|"
    r"not JSON serializable|maximum recursion depth|not enough values to unpack|does not match format|"
    r"\bDETAIL:|\bSQLSTATE\b|duplicate key value violates|value too long for type"
)
_DOCUMENTS = ("application/json", "application/yaml", "application/cbor")
# What the server says of a request that it did not expect.
_UNEXPECTED = (
    "the server met a condition that it does not expect",
    "the store answered in an unexpected way",
    "the request has a value that the database can neither hold nor look up",
)


def check_answer(call: Call, answer: Answer, slow_seconds: float) -> list[Finding]:
    found = []
    text = answer.body.decode("utf-8", "replace")
    if answer.seconds > slow_seconds and not _is_timeout(answer):
        found.append(Finding("slow", f"slow {call.method}", f"{answer.seconds:.1f} s"))
    document = _decoded(answer, text)
    message = str(document.get("message") or "") if isinstance(document, dict) else text
    if any(words in text for words in _UNEXPECTED):
        found.append(Finding("unexpected", f"unexpected {answer.code} {_plain(message)}", message))
    elif (
        answer.code >= 500
        and call.method != "HEAD"
        and not (answer.code == 504 and any(name == "timeout" for name, _ in call.query))
        and not any(code == answer.code and pattern.search(message) for code, pattern, _ in ALLOWED)
    ):
        found.append(Finding("status", f"{answer.code} {_plain(message)}", message))
    leak = _leak(call, text)
    if leak is not None:
        found.append(leak)
    problem = _malformed(answer, document)
    if problem and call.method != "HEAD":
        found.append(Finding("malformed", f"malformed {_plain(problem)}", f"{answer.code} {problem}: {text[:300]}"))
    return found


def _leak(call: Call, text: str) -> Finding | None:
    text = text.replace('\\"', '"')
    for leak in _LEAKS.finditer(text):
        sent = f"{call.path} {call.query} {call.headers} {(call.content() or b'').decode('utf-8', 'replace')}"
        if leak[0] not in sent:
            around = text[max(0, leak.start() - 200) : leak.end() + 200]
            return Finding("leak", f"leak {leak[0]}", around)
    return None


def in_log(text: str) -> list[Finding]:
    """Tracebacks: by their last line and the place that raised."""
    found = []
    # The server's log indents them.
    _, *parts = re.split(r"(?m)^( *)Traceback \(most recent call last\):$", text)
    for indent, trace in zip(parts[::2], parts[1::2], strict=True):
        lines = [line.removeprefix(indent) for line in trace.split("\n")]
        end = next((i for i, line in enumerate(lines) if line and not line.startswith(" ")), len(lines) - 1)
        places = re.findall(r'File "[^"]*?(registry/[^"]+)", line \d+, in (\S+)', "\n".join(lines[:end]))
        place = ":".join(places[-1]) if places else "?"
        error = lines[end][:300] if lines else ""
        found.append(Finding("traceback", f"traceback {error.partition(':')[0]} {place}", trace[-3000:]))
    return found


def _is_timeout(answer: Answer) -> bool:
    return answer.code == 504


def _decoded(answer: Answer, text: str) -> Any:
    try:
        if answer.media_type == "application/json":
            return json.loads(text)
        if answer.media_type == "application/yaml":
            return yaml.load(text, yaml.CSafeLoader)
        if answer.media_type == "application/cbor":
            return _texts(cbor2.loads(answer.body))
    except (ValueError, yaml.YAMLError, cbor2.CBORError):
        return None
    return None


def _texts(value: Any) -> Any:
    """CBOR's byte strings as the texts that they stand for."""
    if isinstance(value, Mapping):
        return {_texts(key): _texts(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def _malformed(answer: Answer, document: Any) -> str:
    """What is wrong with the form of an answer, or "". `document` is the answer decoded, None where it could not be."""
    if answer.headers.get("content-encoding") or answer.media_type not in _DOCUMENTS or answer.code == 304:
        return ""
    try:
        answer.body.decode() if answer.media_type != "application/cbor" else b""
    except UnicodeDecodeError:
        return "no UTF-8"
    if answer.headers.get("transfer-encoding") == "chunked" and answer.code == 200:
        return ""  # lists and watches, of which only a part may have been read
    if document is None:
        return "not what its content type says"
    if answer.code < 400:
        return ""
    if not isinstance(document, dict) or (document.get("kind"), document.get("apiVersion")) != ("Status", "v1"):
        return "a failure that is no Status"
    if document.get("code") != answer.code or document.get("status") != "Failure":
        return "a Status of another code"
    return "" if isinstance(document.get("message", ""), str) else "a message that is no text"


def _plain(text: str) -> str:
    """A message without what differs from one run to the next."""
    text = re.sub(r"\"[^\"]*\"|'[^']*'|\([^)]*\)|[0-9a-f]{16,}|\d+", "_", text)
    return text[:120]
