"""Following the endpoints of a proxy, and merging what they say."""
