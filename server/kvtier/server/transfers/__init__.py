"""Moving bytes between streams and stores."""
