"""How a server is seen from outside: log lines of calls, traces, and what collects metrics."""
