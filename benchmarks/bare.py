"""The least that could answer a webhook: a Flask endpoint that reads JSON and keeps nothing. The measure of cost."""

from flask import Flask, request

app = Flask(__name__)


@app.post("/webhook")
def webhook() -> tuple[str, int]:
    """Read the body and answer 202."""
    alerts = request.get_json()["alerts"]
    return str(len(alerts)), 202
