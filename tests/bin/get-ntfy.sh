#!/bin/sh
# get-ntfy.sh DIR: unpack a real ntfy server into DIR, for tests. Needs Debian 12 or newer, no root.
#
# Debian 12 has no ntfy package, but the one of Debian 13 runs on it. apt fetches and verifies it with lists and a
# cache of its own, so that the machine's sources and packages stay as they are; nothing is installed.
# MIRROR, KEYRING: environment; another Debian mirror, or other keys, than the machine's own.
set -eu

fail() {
    echo "get-ntfy: $1" >&2
    exit 2
}

dest=${1:?usage: get-ntfy.sh DIR}
keyring=${KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "needs apt-get and dpkg, so Debian"
[ -r "$keyring" ] || fail "no keyring at $keyring (package debian-archive-keyring)"

# The security archive is another tree and does not carry the package.
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)}
[ -n "$mirror" ] || fail "no Debian mirror in the apt sources; set MIRROR"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
echo "deb [signed-by=$keyring] $mirror trixie main" > "$scratch/sources.list"

# Sandbox::User: as root, apt would drop to a user who cannot write to $scratch.
private_apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$scratch/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$scratch/lists" -o Dir::Cache="$scratch/cache" -o APT::Sandbox::User=root "$@"
}

private_apt update
(cd "$scratch" && private_apt download ntfy)
dpkg -x "$scratch"/ntfy_*.deb "$scratch/root"
"$scratch/root/usr/bin/ntfy" --help >/dev/null || fail "the binary does not run here"

# Last and in one step: a file that is there is a file that works.
mkdir -p "$dest"
mv "$scratch/root/usr/bin/ntfy" "$dest/ntfy"
