#!/bin/sh
# A scheduler and two workers on this machine, in three lines; they end with this shell.
# Then, in another one:   bbq fit votes.bbq --engine dask://127.0.0.1:8786
trap 'kill 0' EXIT
dask scheduler --host 127.0.0.1 --no-dashboard &
dask worker tcp://127.0.0.1:8786 --host 127.0.0.1 --nworkers 2 --nthreads 1 --no-dashboard &
wait
