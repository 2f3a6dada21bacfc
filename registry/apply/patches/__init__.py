"""JSON patch, merge patch and strategic merge patch.

json_pointer.py has the paths of JSON patches; strategic_kinds.py the lists that strategic merge patches merge.
Follows json-patch and apimachinery pkg/util/strategicpatch.
"""
