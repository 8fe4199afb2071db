"""From a graph and target nodes to the weights of their neighbours, and to representations."""
