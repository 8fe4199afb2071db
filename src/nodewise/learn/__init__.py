"""Learning: the NIGCN estimator, the search behind "auto", networks and their training, calibration, saved models."""
