"""Tiers that last: blocks as whole files or objects that outlive the process."""
