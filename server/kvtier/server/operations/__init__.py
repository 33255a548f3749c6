"""What each call of TierService does, as plain functions of the node and the request."""
