"""Label and field selectors: from the text of a query to the requirements of the store.

    parse_label_selector("env in (dev, prod),!old").requirements
    (Requirement("env", Match.IN, ("dev", "prod")), Requirement("old", Match.DOES_NOT_EXIST))

Begin with labels.py and fields.py.
"""
