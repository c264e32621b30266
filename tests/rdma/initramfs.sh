#!/usr/bin/env bash
# Makes what a virtual machine with Soft-RoCE boots from: the kernel of this system's packages, and a
# file system in memory with the tools, libraries and modules that RDMA takes.
#
#     initramfs.sh FOLDER [PROGRAM...]     FOLDER gets `kernel` and `initramfs`; programs go into /bin
#
# Exit code 3: this system has not what it takes; the last line says what is missing.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")

lacks() { echo "$*" >&2; exit 3; }

# The tools inside. Those of busybox would do for most, but know nothing of RDMA.
tools=(dash ip rdma ibv_devinfo ib_send_lat ib_write_bw)
modules=(virtio_pci virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm)

newest_kernel() { # that has its modules, and Soft-RoCE among them
    local kernel
    for kernel in $(printf '%s\n' /boot/vmlinuz-* | sort --version-sort --reverse); do
        find "/lib/modules/${kernel#/boot/vmlinuz-}" -name 'rdma_rxe.ko*' 2>/dev/null | grep -q . &&
            [[ -r $kernel ]] && echo "$kernel" && return
    done
    return 1
}

# Of a library or program: itself, and all that it is linked with.
add_linked() {
    local file
    for file in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        [[ -e $root$file ]] || install -D "$file" "$root$file"
    done
}

add_program() { # path
    add_linked "$1"
    [[ -e $root/bin/${1##*/} ]] || ln -s "$1" "$root/bin/${1##*/}"
}

add_modules() { # version; in the order in which they must be loaded
    local module file
    for module in "${modules[@]}"; do
        modprobe --set-version "$1" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
    done | awk '!seen[$0]++' | while read -r file; do
        cp "$file" "$root/modules/"
        basename "$file"
    done >"$root/modules/order"
}

out=$1
shift
kernel=$(newest_kernel) || lacks "a readable kernel in /boot with Soft-RoCE among its modules (package linux-image-amd64)"
for tool in busybox cpio "${tools[@]}"; do
    type -P "$tool" >/dev/null || lacks "$tool"
done

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp,run,modules,var,etc}
install -m 755 "$(type -P busybox)" "$root/bin/busybox"
for tool in "${tools[@]}"; do add_program "$(type -P "$tool")"; done
# Which driver a device takes, the verbs library finds out when it is opened.
for driver in /usr/lib/*/libibverbs/librxe-rdmav*.so; do add_linked "$driver"; done
install -D /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/rxe.driver"
for program in "$@"; do
    # What a debugger needs is ten times the rest.
    strip --strip-all -o "$root/bin/${program##*/}" "$program"
    add_linked "$program" && rm -f "$root$program"
done
add_modules "${kernel#/boot/vmlinuz-}"
install -m 755 "$here/init" "$root/init"

cp "$kernel" "$out/kernel"
(cd "$root" && find . -print0 | cpio --quiet --null --create --format=newc) >"$out/initramfs"
