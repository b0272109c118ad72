"""What is decided: values in, verdicts out. No I/O, no clock, no randomness."""
