"""JSON patch, merge patch and strategic merge patch.

json_pointer.py has the paths of JSON patches; strategic_kinds.py the lists that strategic merge patches merge, and
strategic_order.py the order that they leave. Follows json-patch and apimachinery pkg/util/strategicpatch.
"""
