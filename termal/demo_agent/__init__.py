"""A coding agent without a model: it does what the lines of a prompt say. An ACP agent like any other."""
