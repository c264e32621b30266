#!/usr/bin/env bash
# Holds the crates we use against deny.toml, as far as this machine can: the advisories need their
# database, which cargo-deny fetches from the network.
set -euo pipefail

if ! command -v cargo-deny >/dev/null; then
    echo "skipped: cargo-deny is not installed (cargo install --locked cargo-deny brings it)"
    exit 0
fi
cargo deny --locked check bans licenses sources
if cargo deny --locked fetch db 2>/dev/null; then
    cargo deny --locked check advisories
else
    echo "skipped: advisories (their database cannot be fetched from here)"
fi
