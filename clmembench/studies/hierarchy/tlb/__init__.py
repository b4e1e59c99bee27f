"""Address translation: page, entries, sets and policy of each TLB, and what a miss costs."""
