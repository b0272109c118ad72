"""What every worker process shares: its control line to the supervisor, its figures, its start and its end."""
