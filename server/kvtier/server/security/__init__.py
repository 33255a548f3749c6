"""Who may connect to a server, who calls it, and what each caller may do."""
