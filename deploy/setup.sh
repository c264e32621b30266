#!/usr/bin/env bash
# Installs the packages of deploy/packages.txt, and Rust. Installs only missing packages, prints them with
# the reason first, and prints nothing if none is missing.
#
#     deploy/setup.sh [group...]      groups of packages.txt; all of them if none is named
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
PATH=${CARGO_HOME:-${HOME:-}/.cargo}/bin:$PATH:/usr/sbin:/sbin

say() { echo "setup: $*" >&2; }
fail() { say "$@"; exit 1; }
has() { command -v "$1" >/dev/null; }

# ---- the list -------------------------------------------------------------------------------

# Prints `package proof why` for the lines of the list that belong to a group asked for.
wanted() {
    local group package proof hash why
    while read -r group package proof hash why; do
        [[ $hash == "#" && " ${groups[*]} " == *" ${group%:} "* ]] && echo "$package $proof $why"
    done <"$here/packages.txt"
    return 0
}

all_groups() { sed -n 's/^\([a-z]*\): .*/\1/p' "$here/packages.txt" | sort -u; }

is_there() {
    if [[ $1 == /* ]]; then [[ -e $1 ]]; else has "$1"; fi
}

# ---- system packages ------------------------------------------------------------------------

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

require_apt() { # words that name what is missing, packages...
    local words=$1
    shift
    has apt-get || fail "missing: $words. This system has no apt-get: install these by its own" \
        "means (Debian calls them $*), then run this again."
    ((EUID == 0)) || has sudo || fail "missing: $words. Not root and no sudo here: have an" \
        "administrator run: apt-get install --no-install-recommends $*"
}

apt_install() {
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get --quiet --option Acquire::Retries=5)
    as_root "${apt[@]}" update >&2
    # --no-remove: conflicting packages are for a user to decide.
    as_root "${apt[@]}" install --yes --no-remove --no-install-recommends "$@" >&2 ||
        fail "apt-get did not install $*: its words above say why. Nothing was removed."
}

ensure_packages() {
    local missing=() words="" package proof why
    while read -r package proof why; do
        [[ $package == rust:* ]] || is_there "$proof" && continue
        missing+=("$package")
        words+="${words:+, }$package ($why)"
    done < <(wanted)
    ((${#missing[@]})) || return 0
    require_apt "$words" "${missing[@]}"
    say "installing $words"
    apt_install "${missing[@]}"
}

# ---- Rust -----------------------------------------------------------------------------------

rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$here/../Cargo.toml")

rust_version() { { rustc --version | cut -d' ' -f2; } 2>/dev/null; }

rust_is_new_enough() {
    local version
    has cargo && version=$(rust_version) && [[ -n $version ]] &&
        printf '%s\n' "$rust_needed" "$version" | sort --version-sort --check=quiet
}

distribution_has_rustup() {
    has apt-cache && [[ $(apt-cache policy rustup 2>/dev/null) == *"Candidate: "[0-9]* ]]
}

# Downloads rustup's own installer. The toolchain goes into this user's home.
download_rustup() {
    local source folder
    source=https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu
    say "downloading rustup from $source (installs the Rust toolchain; this distribution has no package of it)"
    has curl || {
        require_apt "curl (downloads rustup)" curl ca-certificates
        apt_install curl ca-certificates
    }
    folder=$(mktemp -d)
    curl --proto "=https" --fail --silent --show-error --location --retry 5 \
        --output "$folder/rustup-init" "$source/rustup-init" \
        --output "$folder/sha256" "$source/rustup-init.sha256" ||
        fail "rustup could not be downloaded: curl's words above say why." \
            "Install it from https://rustup.rs and run this again."
    [[ $(cut -c1-64 "$folder/sha256") == $(sha256sum "$folder/rustup-init" | cut -c1-64) ]] ||
        fail "the downloaded rustup is damaged: its checksum is not that of $source/rustup-init.sha256"
    chmod +x "$folder/rustup-init"
    "$folder/rustup-init" -y --quiet --no-modify-path --profile minimal --default-toolchain stable >&2
    rm -r "$folder"
}

ensure_rustup() {
    has rustup && return
    if distribution_has_rustup; then
        require_apt "rustup (installs the Rust toolchain)" rustup
        say "installing rustup (installs the Rust toolchain)"
        apt_install rustup
    else
        download_rustup
    fi
    hash -r
}

ensure_rust() {
    rust_is_new_enough && return
    ensure_rustup
    say "installing the stable Rust toolchain for this user (Reweave needs $rust_needed or newer)"
    rustup toolchain install stable --profile minimal >&2
    rustup default >/dev/null 2>&1 || rustup default stable >&2
    rust_is_new_enough || fail "cargo is still $(rust_version || echo missing), not $rust_needed" \
        "or newer: another toolchain is chosen here (rustup show says why)."
}

ensure_components() {
    local missing=() package proof why tools
    tools=$(rustc --print sysroot)/bin
    while read -r package proof why; do
        [[ $package != rust:* || -x $tools/$proof ]] && continue
        missing+=("${package#rust:}")
        say "installing Rust's ${package#rust:} ($why)"
    done < <(wanted)
    ((${#missing[@]})) || return 0
    has rustup || fail "Rust's ${missing[*]} missing from $tools, and no rustup to bring them:" \
        "install them the way Rust was installed."
    rustup component add "${missing[@]}" >&2
}

groups=("$@")
(($#)) || mapfile -t groups < <(all_groups)
ensure_packages
[[ " ${groups[*]} " == *" build "* ]] && ensure_rust
[[ " ${groups[*]} " == *" checks "* ]] && ensure_components
exit 0
