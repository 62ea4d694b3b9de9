#!/bin/sh
# Prints an assembly file that embeds each named text file and a table of {name, start, end}: see device/kernels/sources.h.
echo '.section .rodata'
i=0
for f in "$@"; do
    printf 'source_%d: .incbin "%s"\nsource_%d_end: .byte 0\nsource_%d_name: .asciz "%s"\n' $i "$f" $i $i "$f"
    i=$((i + 1))
done
echo '.section .data.rel.ro,"aw"'
echo '.balign 8'
echo '.globl source_table'
echo 'source_table:'
j=0
while [ $j -lt $i ]; do
    printf '.quad source_%d_name, source_%d, source_%d_end\n' $j $j $j
    j=$((j + 1))
done
echo '.globl source_table_count'
echo 'source_table_count: .quad '$i
echo '.section .note.GNU-stack,"",@progbits'
