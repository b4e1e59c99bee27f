"""The scorecard of a report: devices side by side in headline quantities, and what that means in sentences."""
