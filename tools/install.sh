#!/bin/sh
# Places the built programs, units and manual pages. $1 build folder, $2 DESTDIR, $3 prefix. Kernels travel inside the programs; their
# sources are installed for readers.
set -eu
build=$1
dest=$2
prefix=$3
install -d "$dest$prefix/bin" "$dest$prefix/share/ipud/kernels" "$dest$prefix/share/ipud/proto" "$dest$prefix/share/doc/ipud" \
    "$dest$prefix/share/man/man1" "$dest$prefix/share/man/man8" "$dest$prefix/lib/systemd/system" \
    "$dest$prefix/lib/sysusers.d" "$dest$prefix/lib/tmpfiles.d" "$dest$prefix/lib/udev/rules.d"
for program in ipud ipuctl ipu-as ipu-objdump ipu-run; do
    install -m 755 "$build/$program" "$dest$prefix/bin/$program"
done
install -m 644 device/kernels/*.S device/kernels/*.inc device/runtime/*.S device/runtime/*.inc "$dest$prefix/share/ipud/kernels"
install -m 644 proto/workload.proto proto/rpc.proto proto/profile.proto "$dest$prefix/share/ipud/proto"
install -m 644 README.md docs/*.md "$dest$prefix/share/doc/ipud"
for page in ipu-run.1 ipu-as.1 ipud.8; do
    section=${page##*.}
    scdoc <"docs/man/$page.scd" >"$dest$prefix/share/man/man$section/$page"
done
"$build/ipuctl" --man | scdoc >"$dest$prefix/share/man/man1/ipuctl.1"
ln -sf ipu-as.1 "$dest$prefix/share/man/man1/ipu-objdump.1"
for unit in systemd/*.service systemd/*.socket; do
    sed "s|/usr/bin|$prefix/bin|g" "$unit" >"$dest$prefix/lib/systemd/system/$(basename "$unit")"
    chmod 644 "$dest$prefix/lib/systemd/system/$(basename "$unit")"
done
install -m 644 systemd/ipud.sysusers "$dest$prefix/lib/sysusers.d/ipud.conf"
install -m 644 systemd/ipud.tmpfiles "$dest$prefix/lib/tmpfiles.d/ipud.conf"
install -m 644 systemd/60-ipu.rules "$dest$prefix/lib/udev/rules.d/60-ipu.rules"
