# Reads floors.txt, then the graph that `bazel query --output=graph` prints, one arrow a line:
#   "//ops/nn:linear" -> "//ops/tensor:tensor"
# Prints every arrow that floors.txt forbids, and exits 1 if there is one.

# The folder of a label, "ops/nn" of "//ops/nn:linear"; empty outside this repository and at its root.
function folder_of(label) {
  if (label !~ /^\/\//) return ""
  sub(/^\/\//, "", label)
  sub(/:.*/, "", label)
  return label
}

function floor_of(folder) {
  sub(/\/.*/, "", folder)
  return folder
}

function forbid(from, to, reason) {
  print "forbidden: " from " -> " to " (" reason ")"
  num_violations++
}

function check_arrow(from, to,    from_floor, to_floor, rule, parts) {
  from_floor = floor_of(folder_of(from))
  to_floor = floor_of(folder_of(to))
  if (from_floor == "" || to_floor == "") return
  num_arrows++
  if (!(from_floor in is_floor)) {
    if (!is_reported[from_floor]++) forbid(from, to, "floors.txt has no floor '" from_floor "'")
  } else if (from_floor != to_floor && !((from_floor, to_floor) in may_use)) {
    forbid(from, to, from_floor " may not use " to_floor)
  }
  for (rule in reason_against) {
    split(rule, parts, SUBSEP)
    if (from_floor == parts[1] && index(folder_of(to) "/", parts[2] "/") == 1) {
      forbid(from, to, reason_against[rule])
    }
  }
}

/^#/ || /^$/ { next }

FILENAME ~ /floors.txt$/ && $2 == ":" {
  is_floor[$1] = 1
  for (i = 3; i <= NF; i++) may_use[$1, $i] = 1
  next
}

FILENAME ~ /floors.txt$/ && $2 == "!" {
  reason = $0
  sub(/^[^:]*: */, "", reason)
  for (i = 3; $i != ":"; i++) reason_against[$1, $i] = reason
  next
}

$2 == "->" {
  gsub(/"/, "")
  check_arrow($1, $3)
}

END {
  print num_arrows + 0 " arrows between targets, " num_violations + 0 " forbidden"
  exit num_arrows == 0 || num_violations > 0
}
