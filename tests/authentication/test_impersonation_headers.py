"""Acting as somebody else: who one is then, and what is refused."""

from __future__ import annotations

import pytest

from registry.authentication.impersonation_headers import NoUserNamed, requested_user
from registry.authentication.user import User

Headers = list[tuple[str, str]]


def requested(headers: Headers) -> User | None:
    return requested_user([(name.lower().encode(), value.encode()) for name, value in headers])


KNOWN = "system:authenticated"
USERS: dict[str, tuple[Headers, User | None]] = {
    "nobody": ([("Accept", "x")], None),
    "an empty user is none": ([("Impersonate-User", "")], None),
    "a user": ([("Impersonate-User", "ann")], User("ann", (KNOWN,))),
    "groups": (
        [("Impersonate-User", "ann"), ("Impersonate-Group", "b"), ("Impersonate-Group", "a")],
        User("ann", ("b", "a", KNOWN)),
    ),
    "groups that say it": (
        [("Impersonate-User", "ann"), ("Impersonate-Group", KNOWN), ("Impersonate-Group", "z")],
        User("ann", (KNOWN, "z")),
    ),
    "unknown on purpose": (
        [("Impersonate-User", "ann"), ("Impersonate-Group", "system:unauthenticated")],
        User("ann", ("system:unauthenticated",)),
    ),
    "anonymous": (
        [("Impersonate-User", "system:anonymous"), ("Impersonate-Group", "g")],
        User("system:anonymous", ("g", "system:unauthenticated")),
    ),
    "a service account": (
        [("Impersonate-User", "system:serviceaccount:ns:bob")],
        User("system:serviceaccount:ns:bob", ("system:serviceaccounts", "system:serviceaccounts:ns", KNOWN)),
    ),
    "a service account in a group": (
        [("Impersonate-User", "system:serviceaccount:ns:bob"), ("Impersonate-Group", "g")],
        User("system:serviceaccount:ns:bob", ("g", KNOWN)),
    ),
    "not quite one": ([("Impersonate-User", "system:serviceaccount:ns")], User("system:serviceaccount:ns", (KNOWN,))),
    "no account by its name": (
        [("Impersonate-User", "system:serviceaccount:ns:Not_one")],
        User("system:serviceaccount:ns:Not_one", (KNOWN,)),
    ),
    "no account, there is more": (
        [("Impersonate-User", "system:serviceaccount:ns:a:b")],
        User("system:serviceaccount:ns:a:b", (KNOWN,)),
    ),
    "the first of two users": ([("Impersonate-User", "ann"), ("Impersonate-User", "bob")], User("ann", (KNOWN,))),
    "the first user is empty": ([("Impersonate-User", ""), ("Impersonate-User", "bob")], None),
    "the first uid is empty": (
        [("Impersonate-User", "ann"), ("Impersonate-Uid", ""), ("Impersonate-Uid", "7")],
        User("ann", (KNOWN,)),
    ),
    "capitals that were escaped stay": (
        [("Impersonate-User", "ann"), ("Impersonate-Extra-%41B", "x")],
        User("ann", (KNOWN,), "", {"Ab": ("x",)}),
    ),
    "a broken escape makes all of it literal": (
        [("Impersonate-User", "ann"), ("Impersonate-Extra-a%2fb%zz", "x")],
        User("ann", (KNOWN,), "", {"a%2fb%zz": ("x",)}),
    ),
    "all of it": (
        [
            ("Impersonate-User", "ann"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-Team", "a"),
            ("Impersonate-Extra-Team", "b"),
            ("Impersonate-Extra-example.com%2fscope", "x y"),
        ],
        User("ann", (KNOWN,), "7", {"team": ("a", "b"), "example.com/scope": ("x y",)}),
    ),
}


@pytest.mark.parametrize("headers, user", USERS.values(), ids=USERS)
def test_the_impersonated_user(headers: Headers, user: User | None) -> None:
    assert requested(headers) == user


NOBODY: dict[str, tuple[Headers, str]] = {
    "groups": (
        [("Impersonate-Group", "g1"), ("Impersonate-Group", "g2")],
        'UID:"", Groups:[]string{"g1", "g2"}, Extra:map[string][]string(nil)',
    ),
    "a uid": ([("Impersonate-Uid", "77")], 'UID:"77", Groups:[]string(nil), Extra:map[string][]string(nil)'),
    "extras": (
        [("Impersonate-Extra-Team", "a")],
        'UID:"", Groups:[]string(nil), Extra:map[string][]string{"team":[]string{"a"}}',
    ),
}


@pytest.mark.parametrize("headers, shown", NOBODY.values(), ids=NOBODY)
def test_something_of_nobody(headers: Headers, shown: str) -> None:
    with pytest.raises(NoUserNamed) as caught:
        requested(headers)
    assert str(caught.value) == f'requested &user.DefaultInfo{{Name:"", {shown}}} without impersonating a user name'
