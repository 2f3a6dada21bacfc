"""The console: pages for browsers at /console, served by the same process as the API.

    static/    what browsers load: ES modules, a page, a style sheet, no build step; static/vendor is third-party code,
               bundled by tools/vendor_console.py
    oidc.py    signing in at an external issuer: authorization code with PKCE
    app.py     the ASGI application of both, with the Content-Security-Policy

The pages use the REST API like any client, with the credentials of whom is signed in: nothing here reads or writes
objects, and a process whose console is not opened has not read a file of it. Documented in docs/console.md.
"""
