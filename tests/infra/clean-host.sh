# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Sourced by tests of the bundle, after lab/lib.sh: a clean host, which is Debian 11 without
# network, with $home as home directory and $bundle, read-only, as /opt/a bundle, x.

# shellcheck source=tests/infra/check.sh
. "$TERN_TOP/tests/infra/check.sh"
# They make build/bundle, one after the other.
lock "bundle-$(key "$TERN_TOP")"
old=$("$LAB/build/sysroot" bullseye)
bundle='' home=''

# there COMMAND...: runs COMMAND in the home directory as a user without a name or HOME, who cannot
# write in /tmp and cannot open /dev/kvm. $setup: run before as root.
there() {
	# shellcheck disable=SC2016
	"${UNSHARE[@]}" --mount --pid --net --fork --kill-child --propagation private bash -euc '
	root=$1 bundle=$2 home=$3 setup=$4
	shift 4
	mount --bind "$root" "$root"
	cd "$root"
	mount -t proc proc proc 2>/dev/null || mount --rbind /proc proc
	mount --rbind /dev dev
	mount -t tmpfs tmpfs opt
	mount -t tmpfs -o mode=755 tmpfs tmp
	mkdir "opt/a bundle, x"
	mount --bind "$bundle" "opt/a bundle, x"
	mount -o remount,bind,ro "opt/a bundle, x"
	mount --bind "$home" home
	eval "$setup"
	exec chroot --userspec=1000:1000 . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin TMPDIR=/home/tmp \
		TERN_KVM=auto sh -c "cd /home && exec \"\$@\"" - "$@"
	' - "$old" "$bundle" "$home" "${setup:-}" "$@"
}

# new_home: makes an empty $home.
new_home() {
	home=$TERN_TOP/build/test/$1
	rm -rf "$home"
	mkdir -p "$home/tmp"
	chmod -R 777 "$home"
}

# says STATUS PATTERN COMMAND...: whether COMMAND ends there with the status and says the pattern.
says() {
	local want=$1 pattern=$2 status=0 output
	shift 2
	output=$(there "$@" 2>&1) || status=$?
	[ "$status" = "$want" ] && grep -qE -- "$pattern" <<<"$output" && return
	echo "status $status: $output" | tail -n 20 >&2
	return 1
}
