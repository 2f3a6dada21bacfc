"""Objects in protobuf, as clients of built-in kinds send and ask for them.

`envelope.py` is the way in. `messages.txt` lists the messages with the numbers, names and types of their fields; it is
written by tools/proto_messages.py. `messages.py` makes classes of them, `convert.py` converts between these and JSON.
Reading and writing the wire format is left to the library protobuf.
"""
