"""HTTP requests, answers and watches. Knows no SQL.

app.py creates the application; middleware/ has the handlers that every request passes, in kube-apiserver's order;
resources.py and documents/ are the endpoints; serving/ is the process, its sockets and TLS.
"""
