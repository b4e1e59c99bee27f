"""The memory divergence model (Wang et al. 2019): measured inputs, predictions, validation."""
