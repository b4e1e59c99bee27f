"""The memory divergence model of Wang et al. 2019, the models it is compared with, and variants of ours. Pure."""
