"""One module a verb: its words, one call into the app, its screen."""
