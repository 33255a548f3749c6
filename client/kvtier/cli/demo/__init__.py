"""Two nodes and a proxy at work, for people to look at."""
