"""One reader per file format: a path in, a stream of arrays out."""
