"""What is known of hardware before it is measured: spec sheets, and claims of drivers and sheets."""
