"""The verbs as library functions. Everything effectful is started from here."""
