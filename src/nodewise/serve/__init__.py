"""One node at a time over HTTP, and a page: labels, reasons, and nodes that are not in the graph."""
