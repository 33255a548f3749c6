"""Loading from the primary what it has, or a secondary."""
