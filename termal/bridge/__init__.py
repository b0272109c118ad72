"""The MCP bridge: one process for one agent session, over stdio. Keeps nothing but what kind of session it serves."""
