# What the scripts of the bundles share: refusing with a sentence, and telling every command before it runs.

die() {
    printf '%s\n' "$1" >&2
    exit 1
}

# Takes --dry-run, which only tells the commands; the other arguments stay in `arguments`.
begin() {
    dry= arguments=()
    local argument
    for argument in "$@"; do
        case $argument in
            --dry-run) dry=yes ;;
            -*) die "packaging/$(basename "$0") does not know $argument: it takes --dry-run only." ;;
            *) arguments+=("$argument") ;;
        esac
    done
}

step() {
    printf '+' >&2
    printf ' %q' "$@" >&2
    printf '\n' >&2
    [ -n "$dry" ] || "$@"
}

# The interpreter for our own small programs: a Mac's python3 may be too old for them.
own_python=build/environment/bin/python
[ -x $own_python ] || own_python=${PYTHON:-python3}

# A dry run shows the way on any system.
only_on_a_mac() {
    [ -n "$dry" ] || [ "$(uname -s)" = Darwin ] || die "$1"
}

# newer_than 14 14.6.1: the version is at least that.
newer_than() { [ "${2%%.*}" -ge "$1" ]; }
