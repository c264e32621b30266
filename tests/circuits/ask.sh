#!/bin/sh
# A device of the exec contract: hands on to RESTCONF at $1 a request in one line of JSON.
set -eu
pairs=http://$1/api/data/optical-switch:cross-connects
read -r request
set -- $(echo "$request" | tr -cs 0-9 ' ')
case $request in
*'"read"'*)
    # One pair on a line, then those that are complete, as JSON.
    found=$(curl -sSf "$pairs" | sed 's/<pair>/\n&/g' |
        sed -n 's/.*<ingress>\([0-9]*\)<.*<egress>\([0-9]*\)<.*/[\1,\2]/p' | paste -sd,)
    echo "{\"circuits\":[$found]}"
    ;;
*'"connect"'*)
    curl -sSf -X PUT -H 'content-type: application/yang-data+xml' \
        -d "<pair><ingress>$1</ingress><egress>$2</egress></pair>" "$pairs/pair=$1"
    echo '{}'
    ;;
*)
    curl -sSf -X DELETE "$pairs/pair=$1"
    echo '{}'
    ;;
esac
