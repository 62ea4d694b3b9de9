# The measurable rules of the house style, over C sources and headers, assembly, scripts and protos.
# usage: awk -v modules="base proto" -v mains="daemon/ipud.c" -f tools/lint-style.awk FILE...
# Rules: 800 lines a file, 100 columns a line of code (150 in a script or a .proto, whose lines are
# command lines and tables), a comment at the top of each file, no tab or trailing blank in C, no
# typedef of a struct, no unfinished marks, allocation only through base/alloc.h, no exit() or
# sleep() in a library, no path of one machine, and includes that follow the order of the modules (a
# module sees itself and those before it; a program sees all).
# The length of functions and their nesting are clang-tidy's (.clang-tidy). Exit code 1 when a rule
# is broken.

function complain(text)
{
    printf "%s:%d: %s\n", FILENAME, FNR, text
    broken = 1
}

function rank(path, part)
{
    for (part = path; sub(/\/[^\/]*$/, "", part);)
        if (part in order)
            return order[part]
    return 0
}

function end_of_file()
{
    if (file != "" && lines > 800 && !(file ~ /\.def$/)) {
        printf "%s:%d: the file is longer than 800 lines\n", file, lines
        broken = 1
    }
}

# Line 1 may be "#!" or "syntax"; the comment begins at the latest on line 3.
function check_top()
{
    if (/^[ \t]*(\/\*|\/\/|#|;)/ && !/^#!/ && !/^#(include|ifndef|define)/)
        top = 1
    if (FNR == 3 && !top && FILENAME !~ /^systemd\//)
        complain("no comment at the top that says what the file is")
}

function check_c(code)
{
    if (/\t/)
        complain("a tab")
    if (/[ \t]$/)
        complain("a trailing blank")
    code = $0
    gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
    if (code ~ /^[ \t]*\*|^[ \t]*\/\*/)
        return
    if (code ~ /(^|[ \t])typedef[ \t]+(struct|union)/ && code !~ /\(/)
        complain("a typedef of a struct")
    if (FILENAME ~ /^tests\// || FILENAME ~ /^(base\/alloc\.|tools\/tidy-model)/)
        return
    if (code ~ /(^|[^_a-zA-Z0-9.>])(malloc|calloc|realloc|strdup|strndup|free|asprintf)\(/)
        complain("allocation goes through base/alloc.h")
    if (code ~ /(^|[^_a-zA-Z0-9.>])(exit|abort)\(/)
        complain("a library does not end its process")
    if (code ~ /(^|[^_a-zA-Z0-9.>])(sleep|usleep)\(/)
        complain("wait for an event, not for time")
}

function check_include(mine, theirs, path)
{
    mine = FILENAME in program ? 0 : rank(FILENAME)
    if (mine == 0 || !match($0, /^#include "[^"]+"/))
        return
    path = substr($0, 11, RLENGTH - 11)
    theirs = rank(path)
    if (theirs > mine)
        complain("includes " path " of a later module")
    # Order alone would allow these two. Compiler and device meet in the package; the client speaks
    # the protocol.
    if (FILENAME ~ /^compiler\// && path ~ /^device\/(sim|driver)\//)
        complain("the compiler includes " path)
    if (FILENAME ~ /^client\// && path ~ /^(device|compiler|schema|daemon)\//)
        complain("the client includes " path)
}

BEGIN {
    count = split(modules, names, " ")
    for (i = 1; i <= count; i++)
        order[names[i]] = i
    count = split(mains, names, " ")
    for (i = 1; i <= count; i++)
        program[names[i]] = 1
}

FNR == 1 {
    end_of_file()
    file = FILENAME
    top = 0
    c = FILENAME ~ /\.[ch]$/
    limit = c || FILENAME ~ /\.(S|inc|awk)$/ ? 100 : FILENAME ~ /\.def$/ ? 1000 : 150
    if (FILENAME ~ /integration/)
        limit = 150
}
FNR <= 3 { check_top() }
length($0) > limit { complain("a line of " length($0) " columns") }
/(^|[ "'(=])\/(home|root|mnt|opt|work)\/[a-z]/ { complain("a path of one machine") }
/(TODO|FIXME|HACK)([^A-Za-z0-9]|$)/ && FILENAME !~ /lint-style/ { complain("an unfinished mark") }
c { check_c(); check_include() }
{ lines = FNR }
END {
    end_of_file()
    exit broken
}
