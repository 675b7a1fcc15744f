#!/usr/bin/env bash
# Trains on several hosts, which are network namespaces of this machine with a cable each to a switch: real TCP, names
# and folders of their own, daemons that mpirun starts as it would by ssh.
#
#   scripts/check_hosts.sh [TOOL]     build/release/app/adaact
#
# Checks that the weights are those of one process on two hosts and on three, where packets take long and get lost, and
# after a cable was pulled in the middle of a training, which must end it everywhere. Takes a minute or two. Needs root,
# ip (Debian's iproute2) and mpirun, and exits with 77 where it has not.
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "check_hosts: skipped: $*"
  exit 77
}
tool=$(realpath "${1:-build/release/app/adaact}")
[ -x "$tool" ] || { echo "check_hosts: there is no tool at $tool" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || skip "only root can make network namespaces"
for program in ip mpirun unshare python3; do
  command -v $program >/dev/null || skip "$program is not installed"
done
ldd "$tool" | grep libmpi >/dev/null || skip "$tool was built without MPI"

hosts=3
prefix=adaact$$
switch=$prefix-switch
network=10.213.7
rank_timeout=4
work=$(mktemp -d)
mkdir "$work/runs"

namespace_of() { echo "$prefix-host$1"; }
# processes [COMMAND]: those on all hosts, or those of them that run this.
processes() {
  local host id command
  for host in $(seq $hosts); do
    for id in $(ip netns pids "$(namespace_of "$host")" 2>/dev/null); do
      command=$(tr '\0' ' ' <"/proc/$id/cmdline" 2>/dev/null) || continue
      case $command in "${1:-}"*) echo "$id" ;; esac
    done
  done
}

clean_up() {
  [ -z "${wire:-}" ] || kill "$wire" 2>/dev/null || true
  local left
  left=$(processes)
  # shellcheck disable=SC2086
  [ -z "$left" ] || kill -KILL $left 2>/dev/null || true
  for namespace in "$switch" $(seq -f "$prefix-host%g" "$hosts"); do
    ip netns del "$namespace" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean_up EXIT

ip netns add "$switch" 2>"$work/log" || skip "no network namespace can be made: $(cat "$work/log")"
ip -n "$switch" link add name bridge type bridge 2>"$work/log" || skip "no bridge can be made: $(cat "$work/log")"
ip -n "$switch" link set bridge up
for host in $(seq $hosts); do
  namespace=$(namespace_of "$host")
  ip netns add "$namespace"
  ip -n "$switch" link add name "port$host" type veth peer name eth0 netns "$namespace" 2>"$work/log" \
    || skip "no cable can be laid: $(cat "$work/log")"
  ip -n "$switch" link set "port$host" master bridge up
  ip -n "$namespace" addr add "$network.$host/24" dev eth0
  ip -n "$namespace" link set lo up
  # One packet at a time, as on a cable, so that one can be lost.
  ip -n "$namespace" link set eth0 gso_max_segs 1 up
done

# What mpirun takes for ssh: ADDRESS COMMAND... A host has its name, and of the runs it sees none but on the first.
cat >"$work/host" <<EOF
#!/usr/bin/env bash
host=\${1##*.}
shift
[ "\$1" != -- ] || shift
exec env -i PATH="\$PATH" HOME="\$HOME" ip netns exec $prefix-host\$host unshare --uts --mount bash -c '
  hostname "host\$0"
  [ "\$0" = 1 ] || mount -t tmpfs none "$work/runs"
  eval "\$1"' "\$host" "\$*"
EOF
chmod +x "$work/host"

# 4 epochs of 10 steps.
training=(train --dataset synthetic --model lenet5 --limit-train 200 --limit-test 50 --batch-size 20 --epochs 4
  --lr 0.01 --threads 1 --checkpoint-every 4 --quiet --rank-timeout "$rank_timeout")

# What tells mpirun before long of a daemon that it cannot reach; options of mpirun.
keepalive=()

# on_hosts COUNT RUN [OPTION...]: starts mpirun on the first of so many hosts.
on_hosts() {
  local count=$1 run=$2 list
  shift 2
  list=$(seq -s, -f "$network.%g:1" "$count")
  timeout 90 "$work/host" "$network.1" exec env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun --host "$list" -n "$count" --bind-to none --mca plm_rsh_agent "$work/host" "${keepalive[@]}" \
    --mca orte_tmpdir_base "$work" \
    --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
    "$tool" "${training[@]}" --out "$work/runs/$run" "$@"
}

status=0
passed() { echo "check_hosts: $*, $SECONDS s"; }
failed() {
  status=1
  echo "check_hosts: FAILED: $*" >&2
  [ ! -f "$work/log" ] || tail -40 "$work/log" >&2
}

# The largest difference of any weight, or an error where it is more than rounding makes.
compare() {
  python3 - "$work/runs/$1/model.safetensors" "$work/runs/$2/model.safetensors" <<'EOF'
import array, json, struct, sys

def weights(path):
    data = open(path, "rb").read()
    length, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    for name in sorted(header.keys() - {"__metadata__"}):
        begin, end = header[name]["data_offsets"]
        yield from array.array("f", data[8 + length + begin:8 + length + end])

pairs = list(zip(weights(sys.argv[1]), weights(sys.argv[2]), strict=True))
largest = max(abs(one - other) / (1 + abs(other)) for one, other in pairs)
print(f"weights differ by {largest:.1e} at most")
sys.exit(not largest < 1e-5)
EOF
}

# train_and_compare WHAT COUNT RUN REFERENCE [OPTION...]
train_and_compare() {
  local what=$1 count=$2 run=$3 reference=$4 difference
  shift 4
  if ! on_hosts "$count" "$run" "$@" >"$work/log" 2>&1; then
    failed "$what"
  elif ! difference=$(compare "$run" "$reference"); then
    failed "$what: $difference"
  else
    passed "$what: $difference"
  fi
}

"$tool" "${training[@]}" --out "$work/runs/alone" >"$work/log" 2>&1 || failed "one process"
passed "one process"
train_and_compare "two hosts" 2 two alone
train_and_compare "three hosts" 3 three alone

# pull_cable HOST WHOSE RUN [OPTION...]: in the middle of a training on three hosts. It must be over before long: all
# processes whose command begins with WHOSE.
pull_cable() {
  local host=$1 whose=$2 run=$3 before pulled left
  shift 3
  before=$(lines_of "$run")
  on_hosts 3 "$run" "$@" >"$work/log" 2>&1 &
  mpirun=$!
  for _ in $(seq 600); do
    [ "$(lines_of "$run")" -lt $((before + 10)) ] || break
    sleep 0.05
  done
  ip -n "$switch" link set "port$host" down
  pulled=$SECONDS
  while
    left=$(processes "$whose")
    [ -n "$left" ] && [ $((SECONDS - pulled)) -le $((rank_timeout + 15)) ]
  do sleep 0.2; done
  took=$((SECONDS - pulled))
  if [ -n "$left" ]; then
    failed "the cable of host $host: after $took s there are still $(wc -w <<<"$left") processes"
  elif [ "$(lines_of "$run")" -gt 43 ]; then
    failed "the cable of host $host was pulled too late"
  fi
}
lines_of() { if [ -f "$work/runs/$1/metrics.jsonl" ]; then wc -l <"$work/runs/$1/metrics.jsonl"; else echo 0; fi; }

# Before mpirun ends, it waits for the daemon that it cannot reach, unless TCP has told it that there is nobody.
pull_cable 3 "$tool" cut
if line=$(grep -m1 'adaact: rank . (host.): rank 2 (host3) did not' "$work/log"); then
  passed "the cable of host 3 was pulled, and all ranks ended after $took s: $line"
else
  failed "the cable of host 3 was pulled, and nobody names its rank"
fi
ip -n "$switch" link set port3 up
if timeout 30 tail --pid=$mpirun -f /dev/null && ! wait $mpirun; then
  passed "it was plugged in, and mpirun ended"
else
  failed "it was plugged in, and mpirun has not ended, or with 0"
fi

keepalive=(--mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3)
pull_cable 1 "" cut --resume
keepalive=()
if wait $mpirun; then
  failed "the cable of host 1 was pulled, and mpirun ended with 0"
else
  passed "the cable of host 1 was pulled, and everything ended after $took s: $(grep -m1 'adaact: rank' "$work/log")"
fi
ip -n "$switch" link set port1 up
train_and_compare "three hosts that go on with it" 3 cut three --resume

# On every cable packets take 10 ms, and one in a hundred gets lost.
if tc -n "$switch" qdisc add dev port1 root netem delay 10ms loss 1% 2>"$work/log"; then
  for host in 2 3; do tc -n "$switch" qdisc add dev "port$host" root netem delay 10ms loss 1%; done
  means="by netem"
else
  # This kernel has no netem: a program takes the place of the switch.
  ip -n "$switch" link del bridge
  ip netns exec "$switch" python3 "$scripts/slow_switch.py" --delay 0.01 --loss 0.01 port1 port2 port3 \
    >"$work/switch.log" 2>&1 &
  wire=$!
  means="by slow_switch.py, for want of netem"
fi
train_and_compare "two hosts with 10 ms and 1 % loss, $means" 2 slow alone
[ -z "${wire:-}" ] || { kill "$wire"; wait "$wire" || true; cat "$work/switch.log"; wire=; }
exit $status
