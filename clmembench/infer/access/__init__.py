"""Properties of memories as work-items see them: banks, sub-groups, registers, and the concurrency that saturates them."""
