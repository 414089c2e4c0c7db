#!/bin/sh
# ./gpu-day [OPTION...]: gpu-day.mjs by the Node of this bundle, with its C++ library where the machine has none.
# Nothing but a shell is needed for it: the first time Node is unpacked by a program of the bundle.
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
if [ ! -x "$here/node" ] && ! "$here/unpack" "$here/node.zst" "$here/node"; then
  echo 'The bundle cannot be unpacked.' >&2
  echo 'It needs 400 MB of room in a folder that can be written: move it to such a place.' >&2
  exit 3
fi
if ! "$here/node" --version >/dev/null 2>&1; then
  export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
exec "$here/node" "$here/gpu-day.mjs" "$@"
