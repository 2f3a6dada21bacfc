"""Messages of google.protobuf in expressions: their types, and the values that they become.

Recorded from kube-apiserver 1.36.2 with cel-go 0.26, and from apiextensions-apiserver of 1.37 with 0.29, which agree.
"""

import pytest

from registry.cel.checker.checker import check
from registry.cel.common import types
from registry.cel.syntax.parser import parse
from tests.cel.evaluation import on_self, outcome, outcome_of


@pytest.mark.parametrize(
    "expression",
    [
        "google.protobuf.Int64Value{value: 5} == 5",
        ".google.protobuf.Int64Value{} + 1 == 1",
        "-google.protobuf.Int32Value{value: 2} == -2",
        "google.protobuf.UInt32Value{value: 1u} == 1u && google.protobuf.UInt64Value{} == 0u",
        "google.protobuf.DoubleValue{value: 1.5} == 1.5",
        "google.protobuf.FloatValue{value: 0.1} == 0.10000000149011612",
        "google.protobuf.FloatValue{value: -1e300} == -1.0 / 0.0",
        "google.protobuf.StringValue{value: 'a'}.startsWith('a') && google.protobuf.StringValue{} == ''",
        "google.protobuf.BytesValue{value: b'a'} == b'a' && google.protobuf.BytesValue{} == b''",
        "google.protobuf.BoolValue{value: true} && !google.protobuf.BoolValue{}",
        "google.protobuf.Int64Value{} != null && type(google.protobuf.Int64Value{}) == int",
        "(1 == 1 ? google.protobuf.Int64Value{value: 1} : null) == 1",
        "(1 == 1 ? google.protobuf.Int64Value{value: 1} : 2) == 1",
        "google.protobuf.Int64Value{?value: optional.none()} == 0",
        "google.protobuf.Int64Value{value: dyn(optional.of(3))} == 3",
        "[google.protobuf.Int64Value{}, 1] == [0, 1] && [1, google.protobuf.Int64Value{}] == [1, 0]",
        "google.protobuf.Struct{} == {} && google.protobuf.Struct{fields: {'a': 1}}.a == 1.0",
        "google.protobuf.Struct{fields: {'a': b'x', 'b': duration('1h'), 'c': null}} == {'a': 'eA==', 'b': '3600s', 'c': null}",
        "google.protobuf.Struct{fields: {'a': timestamp('2020-01-01T00:00:00.5+02:00')}}.a == '2020-01-01T00:00:00.5+02:00'",
        "google.protobuf.Struct{fields: {'a': 9007199254740993, 'b': 18446744073709551615u}}.b == '18446744073709551615'",
        "google.protobuf.Struct{fields: {'a': 9007199254740991}}.a == 9007199254740991.0",
        "google.protobuf.Struct{fields: {'a': google.protobuf.Empty{}}}.a == {}",
        "google.protobuf.ListValue{} == [] && google.protobuf.ListValue{values: [1, 2]} == [1.0, 2.0]",
        "google.protobuf.Value{} == null && google.protobuf.Value{null_value: 5} == null",
        "google.protobuf.Value{string_value: 'a'} == 'a' && google.protobuf.Value{bool_value: true} == true",
        "google.protobuf.Value{struct_value: {'a': 1}}.a == 1 && google.protobuf.Value{list_value: [1]} == [1]",
        "google.protobuf.Value{null_value: google.protobuf.NullValue.NULL_VALUE} == null",
        ".google.protobuf.NullValue.NULL_VALUE == 0",
        "type(google.protobuf.Empty{}) == google.protobuf.Empty && dyn(google.protobuf.Empty{}) != dyn(1)",
        "google.protobuf.Empty{} == google.protobuf.Empty{}",
    ],
)
def test_values(expression: str) -> None:
    assert outcome(expression) == "true"


@pytest.mark.parametrize(
    "expression, error",
    [
        ("google.protobuf.Any{}", "unsupported conversion to ref.Val: (*dynamicpb.Message)"),
        ("google.protobuf.Struct{}.fields", "no such key: fields"),
        ("(1 == 2 ? google.protobuf.Int64Value{} : null) + 1", "no such overload: _+_"),
        ("google.protobuf.Struct{fields: dyn(5)}", "unsupported field type for google.protobuf.Struct.fields: int"),
        (
            "google.protobuf.ListValue{values: dyn({})}",
            "unsupported field type for google.protobuf.ListValue.values: map(dyn, dyn)",
        ),
    ],
)
def test_errors(expression: str, error: str) -> None:
    assert outcome(expression) == f"error: {error}"


@pytest.mark.parametrize(
    "name, field, value, error",
    [
        ("Int32Value", "value", "2147483648", "integer overflow"),
        ("UInt32Value", "value", "4294967296u", "unsigned integer overflow"),
        ("StringValue", "value", "dyn(5)", "unsupported type conversion from 'int' to string"),
        ("BytesValue", "value", "dyn('x')", "unsupported native conversion from string to '[]uint8'"),
        ("DoubleValue", "value", "dyn(1)", "unsupported type conversion from 'int' to float64"),
        ("Int64Value", "value", "dyn(1.0)", "type conversion error from Double to 'int64'"),
        ("Int64Value", "value", "dyn(null)", "type conversion error from 'null_type' to 'int64'"),
        ("Int64Value", "value", "dyn(true)", "type conversion error from bool to 'int64'"),
        ("Int64Value", "value", "dyn(duration('1s'))", "type conversion error from 'Duration' to 'int64'"),
        ("Int64Value", "value", "dyn([])", "type conversion error from list to 'int64'"),
        ("Struct", "fields", "dyn({1: 2})", "unsupported type conversion from 'int' to string"),
        ("Struct", "fields", "{'a': type(1)}", "type conversion not supported for 'type'"),
        ("Struct", "fields", "{'a': quantity('1')}", "type conversion error from 'Quantity' to '*structpb.Value'"),
        ("Value", "struct_value", "dyn(5)", "unsupported type conversion from 'int' to *structpb.Struct"),
        ("Value", "list_value", "dyn(1)", "unsupported type conversion from 'int' to *structpb.ListValue"),
    ],
)
def test_values_that_fit_no_field(name: str, field: str, value: str, error: str) -> None:
    expected = f"error: field type conversion error for google.protobuf.{name}.{field} value type: {error}"
    assert outcome(f"google.protobuf.{name}{{{field}: {value}}}") == expected


@pytest.mark.parametrize(
    "expression, error",
    [
        (
            "google.protobuf.Int64Value{value: 'x'}",
            "expected type of field 'value' is 'int' but provided type is 'string'",
        ),
        (
            "google.protobuf.Int64Value{value: null}",
            "expected type of field 'value' is 'int' but provided type is 'null'",
        ),
        ("google.protobuf.Int64Value{x: 5}", "undefined field 'x'"),
        ("google.protobuf.Int64Value{}.value", "type 'wrapper(int)' does not support field selection"),
        (
            "google.protobuf.Int64Value{} == 'a'",
            "found no matching overload for '_==_' applied to '(wrapper(int), string)'",
        ),
        (
            "google.protobuf.Struct{fields: {1: 'b'}}",
            "expected type of field 'fields' is 'map(string, dyn)' but provided type is 'map(int, string)'",
        ),
        ("google.protobuf.NullValue.X", "undeclared reference to 'google' (in container '')"),
        ("google.protobuf.FieldMask{}", "undeclared reference to 'google.protobuf.FieldMask' (in container '')"),
        ("int{}", "'int' is not a message type"),
    ],
)
def test_types(expression: str, error: str) -> None:
    assert [issue.message for issue in check(parse(expression), {"x": types.INT}).issues] == [error]


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("google.protobuf.ListValue{values: self.l}", "[5.0, 1.0]"),
        (
            "google.protobuf.Struct{fields: {'a': self.l}}",
            "error: field type conversion error for google.protobuf.Struct.fields value type: type conversion error from "
            "'list(dyn)' to '*structpb.Value'",
        ),
        (
            "google.protobuf.StringValue{value: dyn(self)}",
            "error: field type conversion error for google.protobuf.StringValue.value value type: type conversion error from "
            "'map(dyn, dyn)' to 'string'",
        ),
    ],
)
def test_values_of_an_object(expression: str, expected: str) -> None:
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}}}
    assert outcome_of(on_self(expression, schema), {"l": [5, 1]}, None) == expected
