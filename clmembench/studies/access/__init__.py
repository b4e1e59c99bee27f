"""Memories as work-items see them: sub-groups, banks, registers, throughput (Fang et al. 2017)."""
