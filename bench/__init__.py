"""Measurements of the budgets: medians of one run on this machine, ratios against a floor measured in the same run."""
