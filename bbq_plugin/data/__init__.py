"""A data set: records, files, rankings, and all of it as coded arrays."""
