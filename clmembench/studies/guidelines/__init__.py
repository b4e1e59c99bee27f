"""The guidelines of Fang et al. 2017 and seven more, derived again for each device."""
