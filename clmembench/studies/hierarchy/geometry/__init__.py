"""Line, sector, ways and sets of a level from strides."""
