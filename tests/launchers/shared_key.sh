# A coordinator, and a viewer's key that users of this machine have in several ways. What they are answered lies in files
# afterwards; the test reads them.
set -e
cd "$1"
ip link set lo up
"$2/reweave-coordinator" run --config coordinator.toml > coordinator.log 2>&1 &
operator="$2/reweave --coordinator 127.0.0.1:7332 --identity certificates/operator"
timeout 60 sh -c "until timeout 5 $operator status > status.log 2>&1; do sleep 0.1; done" || {
    cat coordinator.log status.log >&2
    exit 1
}

# A user need not be able to reach the folder of the programs.
cp "$2/reweave" reweave
cp -r certificates/viewers/rank viewer
user=65533 group=65532
asked() {
    HOME=$PWD timeout 10 setpriv --reuid="$user" --regid="$user" --groups="$1" \
        ./reweave --coordinator 127.0.0.1:7332 --identity viewer --output json jobs
}
held() {
    chown -R "$1" viewer
    chmod 750 viewer
    chmod "$2" viewer/node.key
}
held "0:$group" 640
asked "$group" > shared
asked 65531 > of-another-group 2>&1 && exit 1
held "0:$group" 644
asked "$group" > of-all 2>&1 && exit 1
held "$user:$group" 640
asked "$group" > of-a-user 2>&1 && exit 1
exit 0
