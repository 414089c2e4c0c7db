#!/bin/sh
# ./gpu-day [OPTION...]: gpu-day.mjs by the Node of this bundle, with its C++ library where the machine has none.
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
if ! "$here/node" --version >/dev/null 2>&1; then
  export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
exec "$here/node" "$here/gpu-day.mjs" "$@"
