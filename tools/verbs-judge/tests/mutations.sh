#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# mutations.sh [SECONDS] [RULE...]: switches off tern's rules of memory windows, one after the
# other, and shows how many seeds verbs-generate needs to find that.
#
# Test: verbs-generate-mutations
# Tier: long, 7200 s
# Lane: trixie
# Boot: --vms 1 --mutate
# Run: /mnt/tern/tools/verbs-judge/tests/mutations.sh
# Results: 28
# Proves: Random programs find each rule of memory windows that is switched off in the device.

seconds=${1:-120}
shift
rules=("$@")
[ ${#rules[@]} -gt 0 ] || rules=(
	mw-pd mw-qp mw-low mw-high mw-wrap mw-read mw-write mw-atomic mw-flush mw-variant mw-unbound
	mw-mr-write bind-qp-pd bind-mr-pd bind-mr-right bind-local-write bind-range bind-wrap bind-free
	bind-type bind-zero-length bind-key inv-free inv-type inv-qp inv-pd inv-variant mr-busy)
mutate() {
	labctl qmp "$(hostname)" qom-set path=/machine/peripheral/tern0 property=mutate \
		value="\"$1\"" >/dev/null
}
status=0
for rule in "${rules[@]}"; do
	mutate "$rule" || exit 2
	if out=$(/mnt/tern/build/guest/judge/verbs-generate -d tern0 --risky --forge --until-found \
		--seconds "$seconds" --seeds 1-100000); then
		echo "ok verbs-generate-mutations/$rule # $(sed -n 's/^# found by //p' <<<"$out")"
	else
		echo "not ok verbs-generate-mutations/$rule - not found in $seconds s"
		status=1
	fi
done
mutate ""
exit $status
