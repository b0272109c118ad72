"""The described interface against the daemon."""
