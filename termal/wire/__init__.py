"""What is said between processes: envelope, operation table, error taxonomy, control lines. Pure: no sockets here."""
