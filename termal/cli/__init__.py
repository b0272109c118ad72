"""The ``termal`` command: one module per command, loaded when it is called. Decides nothing; shows and asks."""
