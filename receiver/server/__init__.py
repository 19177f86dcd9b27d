"""How the process starts: gunicorn's settings and worker, the health check, and the composition root.

Only `server.bootstrap` knows which classes stand behind the ports. No behaviour of the product belongs here.
"""
