"""Which blocks two nodes hold, set against each other in little memory."""
