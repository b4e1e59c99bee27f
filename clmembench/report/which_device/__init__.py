"""The panel "Which device for my code?"."""
