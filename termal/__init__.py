"""TermAl: a local daemon for people who work with coding agents. Importing this package starts and opens nothing."""

__version__ = "0.1.0"
