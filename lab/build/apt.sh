# Sourced by scripts of the lab: apt with a state of its own in the cache, which does not touch the
# machine's lists.
# shellcheck shell=bash

# apt_state NAME: sets $state and $apt_opts.
apt_state() {
	state=$TERN_CACHE/$1
	apt_opts=(
		-o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache"
		-o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
		-o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -o Acquire::Retries=3
		-o APT::Sandbox::User=root -o APT::Architecture=amd64
	)
}

# apt_lists SUITE...: updates their package lists, unless that was done in the last twelve hours.
apt_lists() {
	local s
	"$LAB/host-setup"
	mkdir -p "$TERN_CACHE/locks"
	exec 8>"$TERN_CACHE/locks/lists"
	flock 8
	if [ -n "$(find "$state/stamp" -mmin -720 2>/dev/null)" ]; then
		exec 8>&-
		return
	fi
	say "reading the package lists of $*"
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	touch "$state/status"
	for s; do "$LAB/build/apt-sources" "$s"; done >"$state/sources.list"
	logged "${state##*/}-lists" apt-get "${apt_opts[@]}" update
	touch "$state/stamp"
	exec 8>&-
}
