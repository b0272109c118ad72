"""The process at the top: it starts, watches, replaces and ends the workers. It must never crash itself."""
