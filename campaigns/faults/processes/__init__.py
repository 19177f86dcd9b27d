"""Random schedules for the real receiver process: gunicorn and what it runs, in front of the simulator over HTTP."""
