"""Files of results: runs, stored configurations, traces; and the limits on what they may hold."""
