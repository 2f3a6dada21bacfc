"""Requests in, answers and watches out. Knows no SQL.

app.py makes the application; middleware/ holds what every request passes, in kube-apiserver's order; resources.py and
documents.py are the endpoints; serving/ is the process, its sockets and TLS.
"""
