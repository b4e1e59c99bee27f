"""Points to records: workers are started, points sampled, and every record handed on."""
