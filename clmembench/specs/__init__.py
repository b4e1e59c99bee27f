"""Knowledge about hardware before any measurement: spec sheets, and claims of drivers and of sheets."""
