#!/bin/sh
# Start obil in a container whose root file system may be read-only: numba reads compiled code only from a folder that
# it can also write to, so what the image holds is copied to the folder for temporary files.
set -eu
: "${NUMBA_CACHE_DIR:=${TMPDIR:-/tmp}/obil-cache}"
export NUMBA_CACHE_DIR
if [ ! -d "$NUMBA_CACHE_DIR" ]; then
    cp -r /opt/obil/cache "$NUMBA_CACHE_DIR" || echo "no compiled code was copied: the start compiles" >&2
fi
exec obil "$@"
