"""What a node and a proxy have in common: the server around their services, from start to stop."""
