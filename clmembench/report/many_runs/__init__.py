"""Many runs: devices with many runs in one report, and the values of a device over time."""
