#!/usr/bin/env bash
# Starts PostgreSQL, a hub, two gateways and haproxy on this machine, without containers, from the
# Debian packages postgresql and haproxy: to try a cluster, and for the test of this folder.
# Usage: deploy/cluster/local.sh <folder>     ends everything on SIGTERM or SIGINT
# The hub has 127.0.0.1 on ports of its own, the gateways 127.0.0.2 and .3, haproxy 127.0.0.4.
# PORT_BASE moves all ports. The token of the subscription `demo` is in <folder>/token.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."
base=${PORT_BASE:-18000}
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
export RPC_PORT=$((base + 1)) WEBSOCKET_PORT=$((base + 2)) GRPC_PORT=$((base + 3))
export METRICS_PORT=$((base + 4)) FRONT=127.0.0.4 GATEWAY_1=127.0.0.2 GATEWAY_2=127.0.0.3
postgres_port=$((base + 5)) hub_rpc=$((base + 6)) hub_grpc=$((base + 7))
export SLUICE_CLUSTER__URL="postgres://sluice@127.0.0.1:$postgres_port/postgres"
pids=()

as_postgres=()
[ "$(id -u)" != 0 ] || as_postgres=(setpriv --reuid postgres --regid postgres --clear-groups)
finish() {
  trap '' TERM INT
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
}
trap 'finish; exit 0' TERM INT
trap finish EXIT
sluice=(node dist/src/main.js)
# Waits for a file that a server writes when every endpoint is open.
opened() { for _ in $(seq 600); do [ -e "$1/doors.json" ] && return; sleep 0.1; done; exit 1; }
token_of() { node -pe 'JSON.parse(require("fs").readFileSync(0, "utf8")).token'; }

mkdir -p "$folder/postgres"
[ "$(id -u)" != 0 ] || { chown postgres "$folder/postgres"; chmod 755 "$folder"; }
"${as_postgres[@]}" "$bin/initdb" -D "$folder/postgres/data" -U sluice -A trust >/dev/null
"${as_postgres[@]}" "$bin/postgres" -D "$folder/postgres/data" -h 127.0.0.1 -p "$postgres_port" \
  -k "$folder/postgres" >"$folder/postgres.log" 2>&1 &
pids+=($!)
for _ in $(seq 300); do
  "$bin/pg_isready" -q -h 127.0.0.1 -p "$postgres_port" -U sluice && break
  sleep 0.1
done
"${sluice[@]}" cluster seed --data "$folder/hub" >/dev/null
"${sluice[@]}" subscription add gateways --product bundle --plan unlimited --json \
  --data "$folder/hub" | token_of >"$folder/gateways.token"
"${sluice[@]}" subscription add demo --product bundle --plan unlimited --json --data "$folder/hub" | token_of >"$folder/token"

off() { for name in "$@"; do printf -- '--%s.enabled=false ' "$name"; done; }
"${sluice[@]}" serve --data "$folder/hub" --cluster.gateway hub --rpc.port "$hub_rpc" \
  --grpc.port "$hub_grpc" $(off websocket metrics tpu shredstream indexer) \
  >"$folder/hub.log" 2>&1 &
pids+=($!)
opened "$folder/hub"
# Calls go to the hub's rpc here, which has the embedded chain; with nodes of your own to theirs.
nodes="--upstreams.default.nodes"
xtoken=$(cat "$folder/gateways.token")
for number in 1 2; do
  host=127.0.0.$((number + 1))
  SLUICE_UPSTREAMS__DEFAULT__NODES__0__XTOKEN=$xtoken SLUICE_UPSTREAMS__DEFAULT__NODES__1__XTOKEN=$xtoken \
    "${sluice[@]}" serve --data "$folder/g$number" \
    --cluster.gateway "g$number" --chain.source upstream --metrics.source embedded \
    "$nodes.0.rpc=http://127.0.0.1:$hub_rpc" "$nodes.1.grpc=http://127.0.0.1:$hub_grpc" \
    --trustedProxies 127.0.0.0/8 $(off tpu shredstream indexer) \
    --rpc.host "$host" --rpc.port "$RPC_PORT" --websocket.host "$host" \
    --websocket.port "$WEBSOCKET_PORT" --grpc.host "$host" --grpc.port "$GRPC_PORT" \
    --metrics.host "$host" --metrics.port "$METRICS_PORT" >"$folder/g$number.log" 2>&1 &
  pids+=($!)
done
opened "$folder/g1"
opened "$folder/g2"
haproxy -f deploy/cluster/haproxy.cfg >"$folder/haproxy.log" 2>&1 &
pids+=($!)
printf '%s\n' "${pids[@]}" >"$folder/pids"
echo "commands: export SLUICE_DATA=$folder/g1"
echo "rpc http://$FRONT:$RPC_PORT  metrics http://$FRONT:$METRICS_PORT  token in $folder/token"
wait "${pids[-1]}" || true
