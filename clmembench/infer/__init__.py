"""Records to findings: pure functions that never touch a device."""
