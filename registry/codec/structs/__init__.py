"""Go structs as tables, and a decoder of JSON into them with encoding/json's errors."""
