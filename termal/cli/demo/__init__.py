"""The demo: a stage (the throw-away daemon), roles (its sessions) and the play. Needs nothing but this package."""
