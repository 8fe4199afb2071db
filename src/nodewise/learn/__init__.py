"""From representations to labels: the networks, their training, the estimator and its saved form."""
