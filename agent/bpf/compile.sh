#!/bin/sh
# Compiles traffic.bpf.c to the object beside it, and notes which source it was made from. Takes clang
# and llvm-strip of LLVM 14 or newer, and the kernel's headers (Debian: clang llvm linux-libc-dev).
set -eu
cd "$(dirname "$0")"
headers=/usr/include/$(cc -print-multiarch)
clang -Wall -Wextra -Werror -O2 -g -target bpf -mcpu=v2 -isystem "$headers" \
	-ffile-prefix-map="$PWD"=. -fdebug-compilation-dir=. -c traffic.bpf.c -o traffic.bpf.o
llvm-strip -g traffic.bpf.o
sha256sum traffic.bpf.c >traffic.bpf.sha256
