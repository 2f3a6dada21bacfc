"""Parses the text of an expression: lexer, parser, macros, and errors with cel-go's texts.

Follows cel-go parser/ and common/ast.
"""
