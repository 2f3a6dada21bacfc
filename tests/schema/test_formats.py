"""Each format: what it takes and what it refuses."""

import time
import tracemalloc

import pytest

from registry.schema.formats.formats import CHECKS, effective_format, format_check

TAKEN: dict[str, list[str]] = {
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011"],
    "uri": [
        "http://example.com",
        "/path?q=1#f",
        "mailto:a@b",
        "http://[::1]:80/x",
        "http://u:p@h/%20",
        "*",
        "a:",
        "http://[fe80::1%25en0]/",
        "http://h:/",
        "//host/path",
        "ftp://h/a b",
    ],
    "email": [
        "a@b",
        "Name <a@b.c>",
        '"q q"@b',
        '"n n" <a@b>',
        "a@b (comment (nested))",
        "a@[10.0.0.1]",
        "g: a@b;",
        "ä@ö",
    ],
    "hostname": ["example.com", "a", "1.example", "ex-ample.com", "größe.de", "a" * 63 + ".com"],
    "ipv4": ["10.0.0.1", "010.0.0.1", "0000000001.2.3.4", "::ffff:10.0.0.1"],
    "ipv6": ["::1", "fe80::1", "::ffff:10.0.0.1", "1:2:3:4:5:6:7:8"],
    "cidr": ["10.0.0.0/8", "010.0.0.0/08", "::/0", "fe80::/128", "1:2:3:4:5:6:1.2.3.4/64"],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "0123456789ab", "01:23:45:67:89:ab:cd:ef"],
    "uuid": ["7b5c1a7e-0c1d-4c7e-9f3a-0123456789ab", "7B5C1A7E0C1D4C7E9F3A0123456789AB"],
    "uuid3": ["7b5c1a7e-0c1d-3c7e-1f3a-0123456789ab"],
    "uuid4": ["7b5c1a7e-0c1d-4c7e-9f3a-0123456789ab"],
    "uuid5": ["7b5c1a7e-0c1d-5c7e-9f3a-0123456789ab"],
    "isbn": ["0321751043", "978-0321751041", "978 0321751041"],
    "isbn10": ["0321751043", "080442957X"],
    "isbn13": ["978-0321751041"],
    "creditcard": ["4111 1111 1111 1111", "5555555555554444", "card 378282246310005!"],
    "ssn": ["123-45-6789", "123 45 6789"],
    "hexcolor": ["#fff", "FFFFFF"],
    "rgbcolor": ["rgb(0,0,0)", "rgb( 255 , 1 , 99 )"],
    "byte": ["YQ==", "YWJj", "YWI="],
    "password": ["", "anything"],
    "date": ["2024-02-29", "0000-01-01", "2000-02-29"],
    "duration": ["1h", "-1.5h", "3 weeks", "P1D", "1h30x", "0", "1µs", "1μs", "2 DAYS", "1.s", "999999999999999999h"],
    "date-time": [
        "2024-01-02T03:04:05Z",
        "2024-01-02t03:04:05.123z",
        "2024-01-02T03:04:05+02:00",
        "2024-02-29T23:59:59Z",
    ],
    "k8s-short-name": ["a", "a-1", "1" * 63],
    "k8s-long-name": ["a.b", "a" * 253],
}

REFUSED: dict[str, list[str]] = {
    "bsonobjectid": ["", "507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901g"],
    "uri": [
        "",
        "example.com",
        "a b",
        ":x",
        "http://h:8x/",
        "http://[::1/",
        "http://h/%zz",
        "http://a b/",
        "/a\x00b",
        "http://[1.2.3.4]/",
        "http://u u@h/",
    ],
    "email": [
        "",
        "a",
        "@b",
        "a@",
        "a@b, c@d",
        "a..b@c",
        ".a@b",
        '""@b',
        "a@b(c",
        "a b",
        "a@[x]",
        "g: a@b, c@d;",
        "=?x-none?q?a?= <a@b>",
    ],
    "hostname": ["", "-a", "a b", "a_b.com", "a." + "b" * 64, "a" * 256],
    "ipv4": ["", "10.0.0", "10.0.0.256", "::1", "10.0.0.0x1", "1.2.3.4.5"],
    "ipv6": ["", "10.0.0.1", "fe80::1%eth0", ":::", "1::2::3", "::ffff:010.0.0.1", "12345::"],
    "cidr": ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/-1", "10.0.0/8", "::/" + "9" * 5000],
    "mac": ["", "01:23:45:67:89", "01:23-45:67:89:ab", "01:23:45:67:89:ag"],
    "uuid": ["", "7b5c1a7e-0c1d-4c7e-9f3a-0123456789a", "{7b5c1a7e-0c1d-4c7e-9f3a-0123456789ab}"],
    "uuid3": ["7b5c1a7e-0c1d-4c7e-9f3a-0123456789ab"],
    "uuid4": ["7b5c1a7e-0c1d-4c7e-1f3a-0123456789ab"],
    "uuid5": ["7b5c1a7e-0c1d-4c7e-9f3a-0123456789ab"],
    "isbn": ["0321751044", "978-0321751042", ""],
    "isbn10": ["978-0321751041"],
    "isbn13": ["0321751043"],
    "creditcard": ["4111 1111 1111 1112", "4111 1111 1111 1111 " * 2, "", "1234"],
    "ssn": ["123456789", "123-45-678"],
    "hexcolor": ["#ff", "#gggggg", ""],
    "rgbcolor": ["rgb(256,0,0)", "rgb(0,0)", "0,0,0", "rgb(00,0,0)"],
    "byte": ["", "YQ=", "Y Q==", "YQ==\n", "====", "Y===", "YWJjY===", "=YQ=", "YQ==YQ=="],
    "date": ["2023-02-29", "2024-13-01", "2024-1-1", "1900-02-29", "2024-01-00", "20240101", ""],
    "duration": ["", "x", "5", "3 fortnights", "9999999999999999999h", "9999999999999999999 weeks"],
    "date-time": [
        "2024-01-02T24:04:05Z",
        "2024-01-02 03:04:05Z",
        "2024-01-02T03:04:05",
        "2023-02-29T03:04:05Z",
        "2024-01-02T03:04:05+2:00",
        "x",
    ],
    "k8s-short-name": ["", "A", "-a", "a.b", "a" * 64],
    "k8s-long-name": ["", "a..b", "A.b", "a" * 254],
}


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in TAKEN.items() for text in texts])
def test_valid_values(name: str, text: str) -> None:
    check = format_check(name)
    assert check is not None
    assert check(text)


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in REFUSED.items() for text in texts])
def test_invalid_values(name: str, text: str) -> None:
    check = format_check(name)
    assert check is not None
    assert not check(text)


def test_every_format_is_in_the_tables() -> None:
    assert {name.replace("-", "") for name in TAKEN} == set(CHECKS)
    assert {name.replace("-", "") for name in REFUSED} == set(CHECKS) - {"password"}


@pytest.mark.parametrize(
    "schema_type, name, expected",
    [
        ("string", "date-time", "date-time"),
        ("string", "d-a-te", "d-a-te"),
        ("string", "Date", ""),
        ("", "ipv4", "ipv4"),
        ("integer", "int32", "int32"),
        ("integer", "ipv4", ""),
        ("string", "int32", ""),
        ("number", "double", "double"),
        ("number", "int32", ""),
        ("boolean", "ipv4", ""),
        ("object", "ipv4", ""),
        ("string", "", ""),
    ],
)
def test_the_format_of_the_declared_type_applies(schema_type: str, name: str, expected: str) -> None:
    assert effective_format(schema_type, name) == expected


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_long_texts_take_linear_time(name: str) -> None:
    """Quadratic time would be minutes here."""
    started = time.process_time()
    for piece in ("1", "a.", "a-", "1h", "1:", "[::", "a@", " ", '"a"', "=?a", "("):
        CHECKS[name](piece * (30_000 // len(piece)))
    assert time.process_time() - started < 20


def test_a_group_of_many_addresses_takes_linear_time() -> None:
    """Quadratic time would be a minute."""
    started = time.process_time()
    assert not CHECKS["email"]("x:" + "a<a@b>," * 40_000)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_texts_of_many_parts_take_little_memory(name: str) -> None:
    """A list of the parts, or a state of the matcher for each, would be several megabytes."""
    tracemalloc.start()
    try:
        for piece in ("1h", "1:", "1.", "a.", "AAAA", "xt", "1a"):
            CHECKS[name](piece * (200_000 // len(piece)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000
