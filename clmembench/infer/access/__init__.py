"""What memories do for work-items: banks, sub-groups, registers, and the concurrency that saturates them."""
