#!/usr/bin/env bash
# Holds the crates we use against deny.toml. Known vulnerabilities need their database, which cargo-deny fetches from the
# network; where it cannot, that is said.
set -euo pipefail

cargo deny --locked check bans licenses sources
if cargo deny --locked fetch db; then
    cargo deny --locked check advisories
else
    echo "not checked: advisories (their database cannot be fetched from here)"
fi
