"""Go structs as tables, and the decoder that reads JSON by them with encoding/json's errors."""
