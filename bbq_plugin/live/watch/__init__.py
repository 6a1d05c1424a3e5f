"""The daemon: a folder is watched, what arrives is read, and the results are written anew."""
