#!/bin/sh
# Runs on a machine that has just come up with nothing but its system; what each step says is read by the test.
cd /trial
export DEBIAN_FRONTEND=noninteractive
services="reweave-coordinator reweave-agent reweave-driver"

step() {
    echo "== $1"
    shift
    "$@" 2>&1 || echo "-- failed with $?"
}

# Several at once: a shell's words.
of() { sh -c "$1"; }

step install dpkg --install first/*.deb
step enabled of "systemctl is-enabled $services || true"
step active of "systemctl is-active $services || true"
step user of "getent passwd reweave | cut -d : -f 6"
step programs of "reweave --version && reweave-agent --version && reweave-coordinator --version && reweave-driver --version"
step completions of "
    bash -c '. /usr/share/bash-completion/completions/reweave && complete -p reweave' &&
    test -s /usr/share/zsh/vendor-completions/_reweave && test -s /usr/share/fish/vendor_completions.d/reweave.fish"
step manual of "zcat /usr/share/man/man1/reweave*.gz | sed -n 's/^\.TH \([^ ]*\) .*/\1/p'"
step plugin python3 -c "
import ctypes
plugin = ctypes.CDLL('/usr/lib/reweave/libnccl-profiler-reweave.so')
plugin.ncclProfiler_v4, plugin.ncclProfiler_v5"

# A coordinator of its own, so that there is something that runs.
first_start() {
    reweave cluster init certificates --name trial &&
        mkdir -p /var/lib/reweave/coordinator &&
        cp -r certificates/coordinator /var/lib/reweave/coordinator/identity &&
        chown -R reweave: /var/lib/reweave &&
        printf 'kind = "leaf-spine"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\nhost_gbps = 1\nuplink_gbps = 1\n' \
            > /etc/reweave/fabric.toml &&
        echo '# a person was here' >> /etc/reweave/coordinator.toml &&
        echo '# and here' >> /etc/default/reweave-agent &&
        systemctl start reweave-coordinator
}
step start first_start
step process systemctl show --property=MainPID --value reweave-coordinator
step version dpkg-query --show --showformat='${Version}' reweave-coordinator
step upgrade dpkg --force-confold --install newer/*.deb
step newer-version dpkg-query --show --showformat='${Version}' reweave-coordinator
step same-process systemctl show --property=MainPID --value reweave-coordinator
step settings-kept grep -q 'a person was here' /etc/reweave/coordinator.toml
step others-active of "systemctl is-active reweave-agent reweave-driver || true"

packages="reweave-coordinator reweave-agent reweave-driver reweave"
step remove dpkg --remove $packages
step stopped of "systemctl is-active reweave-coordinator || true"
step data-kept test -e /var/lib/reweave/coordinator/identity
step settings-still-kept grep -q 'and here' /etc/default/reweave-agent
step purge dpkg --purge $packages
step left find /etc /usr /var/lib -path '*reweave*' -not -type d -not -path '/var/lib/dpkg/*' -not -path '/var/lib/systemd/*'
echo "== end"
