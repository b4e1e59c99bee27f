"""The case study MNF (Fang et al. 2017): what each optimisation of a hyperspectral kernel gains."""
