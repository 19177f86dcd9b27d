"""Who asks: tokens, sessions, log-in, and which hosts a browser may have asked for."""
