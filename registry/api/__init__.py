"""The verbs on any resource. Knows neither HTTP nor SQL text.

request.py is what a verb gets, answers.py what it gives; verbs/ holds one module a verb, strategies/ the rules of each
kind, admission/ what may change or refuse a write, tables/ what kubectl prints, wildcard/ several tenants at once.
"""
