"""How the process starts: gunicorn's settings and worker, the health check, and the composition root."""
