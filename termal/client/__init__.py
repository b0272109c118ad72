"""Python client of the daemon's HTTP API: synchronous, typed, for the command line, scripts, tests. Starts nothing."""
