"""Why a node got its label: a prediction taken apart exactly, as numbers, as a picture and as a page."""
