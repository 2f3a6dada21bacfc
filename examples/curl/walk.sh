#!/usr/bin/env bash
# A walk through the API with nothing but curl.
#
#     examples/curl/walk.sh <data-dir> [URL]
#
# <data-dir> is the folder of `registry serve`: it holds the administrator's token and the CA. The walk defines CronTabs
# (examples/crontab), works in a namespace of its own, and removes it again.
set -euo pipefail

data=${1:?the folder of the server, as given to --data-dir}
url=${2:-https://127.0.0.1:6443}
here=$(cd "$(dirname "$0")" && pwd)
namespace=walk-$RANDOM$RANDOM

call() { # METHOD PATH [curl's arguments]
  local method=$1 path=$2
  shift 2
  curl --silent --show-error --fail-with-body --cacert "$data/ca.crt" \
    --header "Authorization: Bearer $(cat "$data/admin-token")" --request "$method" "$url$path" "$@"
}
say() { printf '\n# %s\n' "$*"; }

say "Define a resource. YAML is as good as JSON; applying it again changes nothing."
call PATCH "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/crontabs.jobs.example.com?fieldManager=walk&force=true" \
  --header 'Content-Type: application/apply-patch+yaml' --data-binary "@$here/../crontab/definition.yaml" >/dev/null
crontabs=/apis/jobs.example.com/v1/namespaces/$namespace/crontabs
until call GET /apis/jobs.example.com/v1 >/dev/null 2>&1; do sleep 0.1; done
call GET /apis/jobs.example.com/v1

say "Make a namespace, and an object in it. The answer has what the schema defaults."
call POST /api/v1/namespaces --json "{\"metadata\": {\"name\": \"$namespace\"}}" >/dev/null
trap 'call DELETE "/api/v1/namespaces/$namespace" >/dev/null' EXIT
call POST "$crontabs?fieldManager=walk" --json '{
  "apiVersion": "jobs.example.com/v1", "kind": "CronTab", "metadata": {"name": "nightly", "labels": {"team": "storage"}},
  "spec": {"schedule": "0 3 * * *", "image": "backup:2"}}'

say "What is wrong is told field by field."
call PATCH "$crontabs/nightly" --header 'Content-Type: application/merge-patch+json' \
  --data '{"spec": {"replicas": 11}}' || true

say "Change one field: a merge patch. And the status, which has an endpoint of its own."
call PATCH "$crontabs/nightly" --header 'Content-Type: application/merge-patch+json' \
  --data '{"spec": {"replicas": 3}}' >/dev/null
call PATCH "$crontabs/nightly/status" --header 'Content-Type: application/merge-patch+json' \
  --data '{"status": {"phase": "Ready", "replicas": 3}}' >/dev/null
call GET "$crontabs/nightly/scale"

say "Select by a label and by a field; as the table that kubectl prints."
call GET "$crontabs?labelSelector=team%3Dstorage&fieldSelector=spec.image%3Dbackup:2" \
  --header 'Accept: application/json;as=Table;v=v1;g=meta.k8s.io'

say "Watch for five seconds: first what is there, then what happens."
call GET "$crontabs?watch=true&timeoutSeconds=5" &
sleep 0.5
call DELETE "$crontabs/nightly" >/dev/null
wait
