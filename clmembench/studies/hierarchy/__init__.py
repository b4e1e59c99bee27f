"""How the memory hierarchy of a device is built: levels, TLBs, policies, sharing (Mei et al. 2014, Mei & Chu 2015)."""
