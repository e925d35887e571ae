# shellcheck shell=bash
# A virtual machine with Debian's kernel and the module. Sourced.
#
# Everything it fetches and builds lies in $IOLANE_KERNEL_CACHE. What cannot be
# had is said through "unavailable WHY", which the caller defines.

readonly VM_TESTS_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly VM_KERNEL_DIR=$(dirname "$VM_TESTS_DIR")
readonly VM_CACHE=${IOLANE_KERNEL_CACHE:-/var/tmp/iolane-kernel}

# The modules that the tests use, and what they need of the kernel's library.
readonly VM_MODULES=(
    drivers/block/null_blk drivers/scsi drivers/virtio drivers/block/virtio_blk.ko
    fs/configfs block lib crypto arch/x86/crypto
)

vm_require() {
    [ "$(uname -m)" = x86_64 ] || unavailable "the virtual machine is x86-64"
    local tool
    for tool in qemu-system-x86_64 busybox gcc make dpkg apt-get apt-cache xz; do
        command -v "$tool" >/dev/null || unavailable "$tool is missing"
    done
}

# The release that Debian's meta package stands for, or the one asked for.
vm_release() {
    if [ -n "${IOLANE_KERNEL_RELEASE:-}" ]; then
        printf '%s\n' "$IOLANE_KERNEL_RELEASE"
    else
        apt-cache depends linux-headers-amd64 2>/dev/null |
            awk '$1 == "Depends:" && sub(/^linux-headers-/, "", $2) { print $2; exit }'
    fi
}

# Kernel and headers, unpacked but not installed.
vm_fetch() {
    local release image headers common
    local -a parts
    release=$(vm_release)
    [ -n "$release" ] || unavailable "apt knows no linux-headers-amd64 (apt-get update?)"
    image=linux-image-$release
    headers=linux-headers-$release
    common=${headers%-amd64}-common
    VM_RELEASE=$release
    VM_ROOT=$VM_CACHE/$release
    [ -e "$VM_ROOT/complete" ] && return
    rm -rf "$VM_ROOT"
    mkdir -p "$VM_ROOT/debs"
    (
        cd "$VM_ROOT/debs"
        kbuild=$(apt-cache depends "$headers" | awk '/linux-kbuild/ { print $2; exit }')
        # Since 7.2 the image is a package that only names its parts.
        mapfile -t parts < <(apt-cache depends "$image" |
            awk '$1 == "Depends:" && $2 ~ /^linux-(binary|modules)-/ { print $2 }')
        apt-get download "$image" "${parts[@]}" "$headers" "$common" "$kbuild" >&2
    ) || unavailable "the packages of $release cannot be downloaded"
    local deb
    for deb in "$VM_ROOT"/debs/linux-{headers,kbuild}*.deb; do
        dpkg -x "$deb" "$VM_ROOT"
    done
    local paths=("./boot/vmlinuz-$release") lib module
    for lib in ./lib ./usr/lib; do
        paths+=("$lib/modules/$release/modules.*" "$lib/modules/$release/vmlinuz")
        for module in "${VM_MODULES[@]}"; do
            paths+=("$lib/modules/$release/kernel/$module*")
        done
    done
    for deb in "$VM_ROOT"/debs/linux-{image,binary,modules}-*.deb; do
        [ -e "$deb" ] || continue
        dpkg --fsys-tarfile "$deb" |
            tar -x -C "$VM_ROOT" --wildcards --transform 's#^\./usr/lib/#./lib/#' \
                "${paths[@]}" 2>/dev/null || true
    done
    if [ -e "$VM_ROOT/lib/modules/$release/vmlinuz" ]; then
        mkdir -p "$VM_ROOT/boot"
        mv "$VM_ROOT/lib/modules/$release/vmlinuz" "$VM_ROOT/boot/vmlinuz-$release"
    fi
    [ -e "$VM_ROOT/boot/vmlinuz-$release" ] || unavailable "$image has no vmlinuz"
    # The packages name each other by their installed place.
    sed -i "s#/usr/src/#$VM_ROOT/usr/src/#g" "$VM_ROOT/usr/src/$headers/Makefile"
    rm -rf "$VM_ROOT/debs"
    touch "$VM_ROOT/complete"
}

vm_build_module() {
    local build=$VM_ROOT/module
    local headers=$VM_ROOT/usr/src/linux-headers-$VM_RELEASE
    mkdir -p "$build"
    cp -p "$VM_KERNEL_DIR"/{prio-deadline.c,elevator-abi.h,Kbuild,Makefile} "$build/"
    make -s -C "$build" KDIR="$headers" KVER="$VM_RELEASE" >"$build/log" 2>&1 && return
    cat "$build/log" >&2
    return 1
}

# pahole on the path: installed, or unpacked.
vm_pahole() {
    command -v pahole >/dev/null && return
    local place=$VM_CACHE/pahole
    if [ ! -e "$place/complete" ]; then
        mkdir -p "$place"
        (
            cd "$place"
            apt-get download pahole libdw1 libelf1 libbpf1 >&2 || exit 1
            for deb in *.deb; do dpkg -x "$deb" . && rm "$deb"; done
            touch complete
        ) || return 1
        cat >"$place/pahole" <<END
#!/bin/sh
LD_LIBRARY_PATH=$place/usr/lib/x86_64-linux-gnu exec $place/usr/bin/pahole "\$@"
END
        chmod +x "$place/pahole"
    fi
    PATH=$PATH:$place
}

# vm_make TARGET DESTDIR: of the module that was built.
vm_make() {
    cp -p "$VM_KERNEL_DIR/60-prio-deadline.rules" "$VM_ROOT/module/"
    make -s -C "$VM_ROOT/module" KDIR="$VM_ROOT/usr/src/linux-headers-$VM_RELEASE" \
        KVER="$VM_RELEASE" DESTDIR="$2" "$1"
}

# dkms on the path: installed, or unpacked.
vm_dkms() {
    command -v dkms >/dev/null && return
    local place=$VM_CACHE/dkms
    if [ ! -e "$place/complete" ]; then
        mkdir -p "$place"
        (
            cd "$place"
            apt-get download dkms kmod >&2 || exit 1
            for deb in *.deb; do dpkg -x "$deb" . && rm "$deb"; done
            touch complete
        ) || return 1
    fi
    PATH=$PATH:$place/usr/sbin:$place/sbin:$place/bin
}

# checkpatch.pl from Debian's kernel source: 140 MB, of which three files stay.
vm_checkpatch() {
    local place=$VM_CACHE/checkpatch source
    [ ! -e "$place/complete" ] || return 0
    source=$(apt-cache depends linux-source 2>/dev/null | awk '$1 == "Depends:" { print $2; exit }')
    [ -n "$source" ] || return 1
    rm -rf "$place"
    mkdir -p "$place"
    (
        cd "$place"
        apt-get download "$source" >&2 || exit 1
        dpkg --fsys-tarfile "$source"_*.deb | tar -xO "./usr/src/$source.tar.xz" |
            tar -xJ --strip-components=1 --wildcards '*/scripts/checkpatch.pl' \
                '*/scripts/spelling.txt' '*/scripts/const_structs.checkpatch' || exit 1
        rm "$source"_*.deb
        touch complete
    )
}

vm_build_tools() {
    local tool
    mkdir -p "$VM_CACHE/tools"
    for tool in load verify burst unprivileged; do
        gcc -O2 -Wall -Wextra -static -pthread -o "$VM_CACHE/tools/$tool" \
            "$VM_TESTS_DIR/tools/$tool.c" -lm
    done
}

# vm_add_program DATA FILE: a program that is not static, with its libraries;
# the guest runs it through program().
vm_add_program() {
    local data=$1 file=$2 name
    name=$(basename "$file")
    mkdir -p "$data/lib"
    strip -o "$data/$name" "$file"
    # "libc.so.6 => /lib/... (0x...)", and the loader without an arrow.
    ldd "$file" | sed -n 's#^.*[[:space:]]\(/[^ ]*\) (0x.*#\1#p' | while read -r library; do
        cp -L "$library" "$data/lib/"
    done
}

# The root file system: busybox, modules, tools, guest scripts and, from the
# directory given, data.
vm_build_initramfs() {
    local root=$VM_CACHE/root data=$1
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,lib/modules,guest,data}
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$VM_CACHE"/tools/* "$root/bin/"
    cp "$VM_TESTS_DIR"/guest/* "$root/guest/"
    cp -r "$data/." "$root/data/"
    cp -r "$VM_ROOT/lib/modules/$VM_RELEASE" "$root/lib/modules/"
    find "$root/lib/modules" -name '*.ko.xz' -exec xz -d {} +
    mkdir -p "$root/lib/modules/$VM_RELEASE/updates"
    cp "$VM_ROOT/module/prio-deadline.ko" "$root/lib/modules/$VM_RELEASE/updates/"
    strip --strip-debug "$root/lib/modules/$VM_RELEASE/updates/prio-deadline.ko"
    busybox depmod -b "$root" "$VM_RELEASE"
    ln -s guest/init "$root/init"
    (cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$VM_CACHE/initramfs"
    rm -rf "$root"
}

# With "counted", time in the machine is the number of instructions executed, a
# nanosecond each, by its one processor, and idle time passes at once: what is
# measured does not depend on what else the host does. Otherwise as fast as the
# host can; emulated where it is a virtual machine itself, as nested ones often
# hang when they boot.
vm_accelerator() {
    if [ "$1" = counted ]; then
        printf '%s\n' "-accel tcg,thread=single -icount shift=0,sleep=off -cpu max -smp 1"
    elif [ -w /dev/kvm ] && ! grep -qw hypervisor /proc/cpuinfo; then
        printf '%s\n' "-accel kvm -cpu host -smp 2"
    else
        printf '%s\n' "-accel tcg,thread=multi -cpu max -smp 2"
    fi
}

# Where the host stalls, so do all of the machine's processors at once, which the
# kernel takes for its own fault: that it says so must not fail a test. What
# hangs is found by its task (khungtaskd), and by the time that a machine has.
readonly VM_PATIENCE="no_timer_check rcupdate.rcu_cpu_stall_suppress=1 nowatchdog"

# vm_run SCRIPT RESULTS TIME OPTION...: runs guest/SCRIPT.sh; its results go to
# the file RESULTS. TIME is "counted" or "real", OPTIONs are qemu's.
# IOLANE_KERNEL_NICE is the machine's niceness (15).
vm_run() {
    local script=$1 results=$2 time=$3
    shift 3
    local accelerator
    accelerator=$(vm_accelerator "$time")
    printf 'virtual machine: Linux %s, %s\n' "$VM_RELEASE" "$accelerator" >&2
    : >"$results"
    # shellcheck disable=SC2086
    timeout "${IOLANE_KERNEL_TIME_MAX:-30m}" nice -n "${IOLANE_KERNEL_NICE:-15}" qemu-system-x86_64 $accelerator -M q35 \
        -m 1024 -display none -nodefaults -no-reboot \
        -kernel "$VM_ROOT/boot/vmlinuz-$VM_RELEASE" -initrd "$VM_CACHE/initramfs" \
        -append "console=ttyS0 quiet panic=-1 $VM_PATIENCE guest=$script" \
        -serial "file:$VM_CACHE/console" -serial "file:$results" "$@" &
    local machine=$!
    trap 'kill "$machine" 2>/dev/null; exit 1' INT TERM
    wait "$machine"
}
