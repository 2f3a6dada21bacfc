"""The verbs on any resource. Knows neither HTTP nor SQL text.

request.py is the input of a verb, answers.py its output. verbs/ has one module for each verb, strategies/ the rules of
each kind, admission/ what may change or refuse a write, tables/ what kubectl prints, wildcard/ requests over several
tenants.
"""
