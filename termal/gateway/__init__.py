"""HTTP in front of the workers: routes, guards, event streams, and the gunicorn processes that carry them.

It translates and forwards; it decides nothing that a worker owns, and it keeps no fact that a restart would lose.
"""
