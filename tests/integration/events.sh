#!/bin/sh
# The log events of facts/seed_log_fields.md as `ipuctl submit --log` prints them: every one that this workload exercises,
# with the same field names, and the arithmetic that ties the numbers together. docs/OPERATIONS.md has the table. $1: build folder.
. tests/integration/common.inc

start_daemon
"$ipuctl" workload siglip-mlp --batch 1 --tokens 17 --dim 64 --hidden 128 --blocks 3 --tiles 64 -o "$work/w.pb"

# event LEVEL-AND-PHASE MESSAGE FIELDS: an extended regular expression for the fields, the whole line is compared.
stamp='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z '
event() { said "$stamp+$1 ?$2 $3\$"; }
bare() { said "$stamp+INFO $1\$"; }
n='[0-9]+'

expect 0 "$ipuctl" submit --log "$work/w.pb"
cp "$work/err" "$work/cold"
event 'INFO lower_mid' 'retained operator-plan finalist' "finalist=0 values=$n operations=1 \
estimated_cycles=$n estimated_exchange_cycles=$n exchange_row_bytes=$n peak_standard_bytes=$n \
peak_interleaved_bytes=$n peak_total_bytes=$n maximum_standard_allocation_bytes=$n \
active_tile_counts=\{[0-9,]+\} padding_group_counts=\{[0-9,]*\} conversion_sources=\[.*\]"
event 'INFO select_finalist' 'modelled expanded operator plan' "finalist=0 modelled_cycles=$n estimated_cycles=$n estimated_exchange_cycles=$n"
event 'INFO select_finalist' 'scheduled operator-plan finalist' "finalist=0 mapped=false \
analytical_cycles=$n analytical_exchange_cycles=$n scheduled_exchange_cycles=$n refined_cycles=$n"
event 'INFO select_finalist' 'selected physically scheduled operator-plan finalist' "selected=$n mapped=false"
event 'INFO build' 'lowered graph for package construction' "logical_shards=$n exchange_phases=3"
event 'INFO compile_kernels' 'compiling kernel' "source=gemm_f16.S name=gemm_f16[a-z0-9_]+ target=ipu21"
event 'INFO compile_kernels' 'kernel artifact created' "key=[0-9a-f]{64}"
event 'INFO lower_mid' 'saved mid-plan search state' "attempts=$n bytes=$n"
event 'INFO build' 'allocated package support memory' "linked_end=$n profile_bytes=$n \
exchange_table_bytes=$n host_code_bytes=$n host_data_bytes=$n generated_code_bytes=$n \
code_address=$n standard_ranges=\[.*\]"
event 'INFO lower_exchanges' 'reused exchange optimization after validating relocated rows' "phase=2"
event 'INFO build' 'costed final placed program' "final_cycles=$n final_exchange=$n"
event 'INFO build' 'validated search incumbent' "cycles=$n resuming=false"
for phase in lower_mid select_finalist compile_runtime plan_kernels compile_kernels link_runtime size_tile_code place_storage \
    lower_exchanges prepare_tile_code emit_tile_code build_tile_images; do
    event "INFO $phase" 'package build phase finished' "phase=\"$phase\" elapsed_ms=$n success=true"
done
said ' INFO ([a-z_]+ )?writing application package tiles=1472$'
said ' INFO ([a-z_]+ )?application package written bytes=[0-9]+$'
ok "every event of a cold compile is printed with its fields"

bare "reading application package bytes=$n"
bare 'application package read tiles=1472 compiler=0\.1\.0'
bare 'waiting for hardware ownership path=.*/device\.lock'
bare 'acquired hardware ownership path=.*/device\.lock'
bare 'opening IPU device path="?sim"?'
bare 'IPU device attached path=sim'
bare 'initializing IPU device'
bare 'IPU device initialized'
bare 'loading application tile_count=1472 final_mark=23'
bare 'application loaded and initial synchronization completed tile_count=1472'
bare 'starting host exchange session startup_mark=23'
bare 'attaching host exchange pages pages=2'
bare 'host exchange session started'
bare "invoking streaming host exchange call call=\"initialize\" command=0 phases=$n"
bare "invoking streaming host exchange call call=\"run\" command=0 phases=$n"
bare "configured host reference BLAS threads=[1-9][0-9]*"
bare "evaluated host reference elapsed_ms=$n"
ok "every event of a run is printed with its fields"

# facts/seed_log_fields.md section 7: 1 and 2, and the result line names what was costed last.
awk '
function field(name, at) { at = index($0, " " name "="); return at ? substr($0, at + length(name) + 2) + 0 : -1 }
/scheduled operator-plan finalist finalist=/ {
    lines++
    if (field("refined_cycles") != field("analytical_cycles") - field("analytical_exchange_cycles") + field("scheduled_exchange_cycles"))
        bad = bad "refined " $0 "\n"
}
/ validated search incumbent / { validated = field("cycles") }
/ costed final placed program / { costed = field("final_cycles"); if (field("final_exchange") <= 0) bad = bad $0 "\n" }
END { if (lines < 1 || bad != "" || costed != validated) { print bad costed " " validated; exit 1 } }' "$work/cold" || fail "the numbers do not tie"
estimated=$(sed -n 's/^workload=.* estimatedCycles=\([0-9]*\)$/\1/p' "$work/out")
grep -q "costed final placed program final_cycles=$estimated " "$work/cold" || fail "estimatedCycles=$estimated is not what was costed"
ok "the numbers of the events tie"

expect 0 "$ipuctl" submit --no-cache --log "$work/w.pb"
event 'INFO lower_mid' 'loaded mid-plan search state' "attempts=$n frontier=$n resumes=1"
event 'INFO build' 'validated search incumbent' "cycles=$n resuming=true"
grep -q 'compiling kernel' "$work/err" && fail "a kernel was compiled again"
ok "a resumed compile says that it resumed, and takes its kernels from the cache"

expect 0 "$ipuctl" submit --log "$work/w.pb"
grep -q 'package build phase' "$work/err" && fail "a cached package was built again"
bare "invoking streaming host exchange call call=\"run\" command=0 phases=$n"
bare 'outputs equal those of a check that has passed outputs=1 verdict=[0-9a-f]{16}'
expect 0 "$ipuctl" log 1
grep -q 'configured host reference BLAS' "$work/out" || fail "the log of job 1 is not what was shown"
printed 'INFO build costed final placed program'
ok "a cached job is executed and its outputs are known; the stored log is the printed one"
