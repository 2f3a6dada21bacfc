"""From the text of an expression to its tree: lexer, parser, macros, and errors in cel-go's words.

Follows cel-go parser/ and common/ast.
"""
