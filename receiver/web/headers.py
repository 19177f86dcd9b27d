"""The headers that every answer has."""

# Nothing but our own files: no inline script or style, no frame, no other host; forms and requests go to ourselves.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    # Other sites learn nothing. With no-referrer browsers would send our own forms as of Origin: null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
NO_STORE = {"Cache-Control": "no-store"}  # every answer but those of files that never change
