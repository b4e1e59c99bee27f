"""Records and spec sheets to predictions: what a device could do, or needs in order to do it. Pure."""
