# A cluster of Slurm in a network of its own, with a coordinator: one job while it answers, and one when it is gone.
# What is seen lies in files afterwards; the test reads them. Only the scripts' own file tells them where the
# coordinator is.
set -e
cd "$1"
export PATH=$2:$PATH SLURM_CONF=$1/slurm.conf
hostname controller
mount --bind hosts /etc/hosts
ip link set lo up
ip link add own type veth peer name other
ip address add 192.0.2.1/24 dev own
ip link set own up
ip link set other up

# What never comes ends the test with all that was said.
awaited() {
    timeout 60 sh -c "until $1; do sleep 0.1; done" && return
    echo "in vain: $1" >&2
    tail -n 20 ./*.log >&2
    exit 1
}

coordinator() {
    reweave-coordinator run --config coordinator.toml > coordinator.log 2>&1 &
    coordinator=$!
    awaited "./ask status > status.log 2>&1"
}

munge() {
    mkdir -m 700 munge
    (umask 077 && head -c 64 /dev/urandom > munge/key)
    munged --foreground --force --socket="$PWD/munge.socket" --key-file="$PWD/munge/key" --pid-file="$PWD/munge/pid" \
        --log-file="$PWD/munge/log" --seed-file="$PWD/munge/seed" > munged.log 2>&1 &
    awaited "[ -S munge.socket ]"
}

slurm() {
    slurmctld -D > slurmctld.log 2>&1 &
    for node in h0 h1 h2 h3; do
        unshare --uts sh -c "hostname $node; exec slurmd -D" > "slurmd-$node.log" 2>&1 &
    done
    awaited '[ "$(sinfo --noheader --format "%D %T" 2> sinfo.log)" = "4 idle" ]'
}

coordinator
munge
slurm
timeout 60 sbatch --wait --nodes=4 --ntasks-per-node=1 --output=batch.log ./batch > sbatch.log
timeout 60 sbatch --wait --nodes=4 --ntasks=8 --output=shape-8.log ./shape >> sbatch.log
timeout 60 sbatch --wait --nodes=4 --ntasks=7 --output=shape-7.log ./shape >> sbatch.log
timeout 60 srun --nodes=4 --ntasks=4 ./tell > tasks-direct
awaited "./ask --output json jobs > jobs-after && grep -q '\"registered\":\[\]' jobs-after"
kill "$coordinator"
wait "$coordinator" || true
timeout 60 srun --nodes=4 --ntasks=4 ./tell > tasks-alone
# Epilogs come after the end of their jobs. No other job here has one under these numbers, with these files.
awaited '[ "$(sinfo --noheader --format "%D %T")" = "4 idle" ]'
{ grep -lsx 'h[0-3]' /tmp/reweave-ranks-[1-5].?????? || true; } > left
