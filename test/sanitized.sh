#!/bin/sh
# sanitized.sh native|remoted BUILD DEVICE RUNTIMES PROGRAM [ARGUMENT...]: runs a CUDA program with the libraries
# of a build that has sanitizers, on the software device in the folder DEVICE itself or through the build's guest
# library and executor. RUNTIMES are the sanitizers' own libraries: the program was compiled without them.
set -eu
how=$1 build=$2 device=$3 runtimes=$4
shift 4

# Programs end with memory of theirs, and cudart's, not given back.
ASAN_OPTIONS=detect_leaks=0
export ASAN_OPTIONS
SOFTWARE_DEVICE_CHECKS=exact  # what a program does to the byte, not only to the page
export SOFTWARE_DEVICE_CHECKS

if [ "$how" = native ]; then
  exec env LD_PRELOAD="$runtimes" LD_LIBRARY_PATH="$device" "$@"
fi

folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
mkfifo "$folder/said"
exec 3<> "$folder/said"
"$build/api-server/executor-host" --library "$device/libcuda.so.1" --port 0 \
  >&3 2> "$folder/log" &
server=$!
read -r port <&3
status=0
OUTBOARD_SERVER="127.0.0.1:${port##*[!0-9]}" LD_PRELOAD="$runtimes" \
  LD_LIBRARY_PATH="$build/guest-lib" "$@" || status=$?
kill "$server" 2>/dev/null || true
# What the server's sanitizers found.
if grep -E 'Sanitizer|runtime error' "$folder/log"; then
  cat "$folder/log"
  status=1
fi
exit "$status"
