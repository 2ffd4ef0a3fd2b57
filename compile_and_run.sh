#!/usr/bin/env bash
# The one entry point: sets up once, then compiles, runs or tests. Works with bash 3.2 (macOS) and later.
# PyTorch: on Linux, plain pip may fetch the CUDA build (some GB); it runs on a CPU as well. To save the space, install the
# CPU build of the version in requirements.txt into .venv yourself, as pytorch.org says; the set-up then keeps it.
set -euo pipefail

# === messages
say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit "${status:-1}"; }
usage_error() { status=2 die "$* (./compile_and_run.sh --help lists what there is)"; }

usage() {
    cat <<'TXT'
./compile_and_run.sh [COMMAND] [OPTIONS]

Commands
  all        compile the notebooks, execute them, write figures, tables and report into reports/ (default)
  compile    build from notebooks/: answers/, base_code/, what is missing in code/, questions and rubric in reports/
  run        execute the notebooks
  test       run the tests; further arguments go to pytest
  check      a student: run the visible tests of code/hw11 and say which TODO is next
  submit     a student: pack code/hw11 into one zip to hand in (--student ID, --output FOLDER)
  release    an instructor: build what students get, Homework-11-Template/ and its zip (--output FOLDER, default dist/)
  grade      a TA: grade a folder of submissions safely: grade FOLDER [--output CLASS] [--due 'YYYY-MM-DD HH:MM']
             [--workers N] [--dask ADDRESS] [--student-pattern REGEX] [--only NOTEBOOK] [--unsafe-no-sandbox]
  play       fight a boss that learns from you, in the browser (--port, --host, --anchor, --data FOLDER, --no-browser)
  train      a researcher: train one policy on several games and representations: train maml|fomaml|rl2|pearl [OPTIONS]
  adapt      adapt its checkpoint to new tasks: adapt CHECKPOINT [OPTIONS]
  generate   adapt its checkpoint to one task and draw levels: generate CHECKPOINT [OPTIONS]
  reach      MAML with the same functions on a simulated robot arm: reach [--solutions NOTEBOOK] [OPTIONS]
  setup      set up only
(check, submit, release, grade, play, train, adapt, generate and reach take all arguments after them; -h says more)

Options for all, run
  --notebooks answers|code   the worked notebooks (default where there are any) or your own in code/hw11;
                             results of your own go to reports/code/
  --only PART                only notebooks whose name holds PART, e.g. --only maml; may be repeated
  --profile smoke|quick|full seconds, minutes (default) or hours
  --device auto|cpu|cuda     where tensors live (default auto: a GPU if there is one)
  --cell-timeout SECONDS     the longest that one cell may take (default two hours)
  --workers N                notebooks at once (default: the cores, four at most)

Options for compile
  --check                    write nothing; fail if a committed notebook or paper is out of step with its source

Options for all commands
  --python PATH              make .venv with this Python 3.10, 3.11 or 3.12 (also: PYTHON=PATH);
                             default: the newest of these that is found
  --active                   make no .venv; install into the virtual or conda environment that is active
  -h, --help                 this text

The first run makes .venv beside this script and installs requirements.txt (some minutes, about 2 GB; 6 GB where pip
fetches the CUDA build of PyTorch). Later runs skip that, unless requirements.txt, pyproject.toml or the interpreter changed.
Variables: HW11_PROFILE, HW11_DEVICE, HW11_THREADS, HW11_OUTPUT (folder of results), HW11_MIN_FREE_MB (disk space asked for).
TXT
}

# === where we are
# The script's own folder, links followed. (readlink -f is missing on older macOS.)
source_path=${BASH_SOURCE[0]}
while [ -L "$source_path" ]; do
    folder=$(cd -P "$(dirname "$source_path")" && pwd)
    source_path=$(readlink "$source_path")
    case $source_path in /*) ;; *) source_path=$folder/$source_path ;; esac
done
root=$(cd -P "$(dirname "$source_path")" && pwd)
called_from=$PWD
case ${HW11_OUTPUT:-/} in /* | "~"*) ;; *) export HW11_OUTPUT=$called_from/$HW11_OUTPUT ;; esac
cd "$root"

# === arguments
command=
python=${PYTHON:-}
active=no
run_options=()
compile_options=()
pytest_options=()
command_options=()
given=()        # "COMMANDS OPTION": which commands an option that was given belongs to

one_of() { # one_of OPTION VALUE ALLOWED...
    local option=$1 value=$2 allowed
    shift 2
    for allowed in "$@"; do
        if [ "$value" = "$allowed" ]; then return; fi
    done
    usage_error "$option: unknown value '$value'; choose one of: $*"
}

while [ $# -gt 0 ]; do
    argument=$1
    shift
    case $argument in
        --python=* | --profile=* | --device=* | --notebooks=* | --only=* | --cell-timeout=* | --workers=*)
            set -- "${argument#*=}" "$@"
            argument=${argument%%=*}
            ;;
        --python | --profile | --device | --notebooks | --only | --cell-timeout | --workers)
            if [ $# -eq 0 ]; then usage_error "$argument needs a value"; fi
            ;;
    esac
    case $argument in
        -h | --help) usage; exit 0 ;;
        --python) python=$1; shift ;;
        --active) active=yes ;;
        --profile)
            one_of "$argument" "$1" smoke quick full
            export HW11_PROFILE=$1
            given+=("all run test $argument"); shift
            ;;
        --device)
            one_of "$argument" "$1" auto cpu cuda
            export HW11_DEVICE=$1
            given+=("all run test $argument"); shift
            ;;
        --notebooks)
            one_of "$argument" "$1" answers code
            run_options+=("$argument" "$1")
            given+=("all run $argument"); shift
            ;;
        --only | --cell-timeout | --workers) run_options+=("$argument" "$1"); given+=("all run $argument"); shift ;;
        --check) compile_options+=("$argument"); given+=("compile $argument") ;;
        *)
            if [ "$command" = test ]; then
                pytest_options+=("$argument")
            else
                case $argument in
                    all | compile | run | test | setup | check | submit | release | grade | play | train | adapt | generate | \
                        reach)
                        if [ -n "$command" ]; then usage_error "two commands: $command and $argument"; fi
                        command=$argument
                        case $command in
                            check | submit | release | grade | play | train | adapt | generate | reach)
                                command_options=("$@")
                                set --
                                ;;
                        esac
                        ;;
                    -*) usage_error "unknown option: $argument" ;;
                    *) usage_error "unknown command: $argument" ;;
                esac
            fi
            ;;
    esac
done
command=${command:-all}
# (bash before 4.4 calls an empty array unset: hence the ${array[@]+…} here and below)
for entry in ${given[@]+"${given[@]}"}; do
    case " $entry" in
        *" $command "*) ;;
        *) usage_error "${entry##* } does not go with the command '$command'" ;;
    esac
done

# === set-up
# Another project's packages and another interpreter's home must not leak in.
unset PYTHONPATH PYTHONHOME
export PYTHONNOUSERSITE=1 PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }

supported() { case $1 in 3.10 | 3.11 | 3.12) return 0 ;; *) return 1 ;; esac; }

choose_python() { # sets $python to an interpreter that makes the environment
    local candidate version seen=
    if [ -n "$python" ]; then
        case $python in
            /*) ;;
            */*) python=$called_from/$python ;;
        esac
        version=$(version_of "$python")
        if [ -z "$version" ]; then die "the interpreter asked for cannot be run: $python"; fi
        supported "$version" || die "Python 3.10, 3.11 or 3.12 is needed; $python is $version"
        return
    fi
    for candidate in python3.12 python3.11 python3.10 python3 python; do
        version=$(version_of "$candidate")
        if [ -z "$version" ]; then continue; fi
        if supported "$version"; then python=$candidate; return; fi
        case $seen in *"$version"*) ;; *) seen="$seen${seen:+, }$candidate is $version" ;; esac
    done
    die "Python 3.10, 3.11 or 3.12 is needed and none was found${seen:+ ($seen)}; install one or give --python PATH"
}

in_environment() { # sets $py, the environment's interpreter
    py=$environment/bin/python
    if [ ! -e "$py" ] && [ -e "$environment/Scripts/python.exe" ]; then py=$environment/Scripts/python.exe; fi
}

wanted_stamp() { # what the stamp says when the environment fits; fails when the environment does not work
    "$py" - <<'PY' 2>/dev/null || return 1
import importlib.util, sys
missing = [name for name in ("metapcg", "torch", "nbclient", "nbgrader", "pytest") if not importlib.util.find_spec(name)]
if missing:
    sys.exit(1)
print("python", *sys.version_info[:3], sys.prefix)
PY
    printf 'files %s\n' "$(cat requirements.txt pyproject.toml | cksum)"
    printf 'folder %s\n' "$root"
}

check_disk() {
    local free needed=${HW11_MIN_FREE_MB:-3000}
    free=$(df -Pk "$1" 2>/dev/null | sed -n -E '$s/.* ([0-9]+) +[0-9]+%.*/\1/p')
    if [ -n "$free" ] && [ "$((free / 1024))" -lt "$needed" ]; then
        die "not enough disk space: $((free / 1024)) MB free where $1 lies, $needed MB wanted (HW11_MIN_FREE_MB=0 skips this)"
    fi
}

why_pip_failed() {
    local network='Failed to establish a new connection|Temporary failure in name resolution|Name or service not known'
    network="$network|nodename nor servname|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|Network is unreachable"
    network="$network|ProxyError|Max retries exceeded|No route to host|CERTIFICATE_VERIFY_FAILED"
    if grep -q -E 'No space left on device|Errno 28|Disk quota exceeded|Errno 122' "$log"; then
        say "the disk is full (temporary files go to ${TMPDIR:-/tmp}; TMPDIR names another place)"
    elif grep -q -E "$network" "$log"; then
        say "pip cannot reach the package index; is there a network?"
    else
        grep -E '^(ERROR|error)' "$log" | tail -n 1 || true
    fi
}

run_pip() { # run_pip TITLE ARGUMENTS...: everything into the log, the large steps on the screen
    local line code count begin=$SECONDS
    say "$1"
    shift
    set +e
    "$py" -m pip --no-input "$@" --progress-bar off 2>&1 | while IFS= read -r line; do
        printf '%s\n' "$line" >&3
        case $line in
            *Downloading*[0-9]" MB"* | *Downloading*[0-9]" GB"*) say "  $((SECONDS - begin)) s: ${line#"${line%%Downloading*}"}" ;;
            *Retrying*) say "  $((SECONDS - begin)) s: the package index does not answer; trying again" ;;
            "Installing collected packages"*)
                count=${line//[^,]/}
                say "  $((SECONDS - begin)) s: installing $((${#count} + 1)) package(s)"
                ;;
        esac
    done 3>>"$log"
    code=${PIPESTATUS[0]}
    set -e
    if [ "$code" -ne 0 ]; then
        die "set-up failed: $(why_pip_failed) [log: $log; the next call goes on from here]"
    fi
}

set_up() {
    local stamp asked version
    if [ "$active" = yes ]; then
        if [ -n "$python" ] && [ -z "${PYTHON:-}" ]; then usage_error "--active and --python exclude each other"; fi
        environment=${VIRTUAL_ENV:-${CONDA_PREFIX:-}}
        if [ -z "$environment" ]; then die "--active: no virtual or conda environment is active"; fi
        in_environment
        version=$(version_of "$py")
        if [ -z "$version" ]; then die "--active: $environment has no Python that runs"; fi
        supported "$version" || die "Python 3.10, 3.11 or 3.12 is needed; $py is $version"
    else
        environment=$root/.venv
        in_environment
    fi
    stamp=$environment/.hw11-setup
    asked=no
    if [ "$active" = no ] && [ -n "$python" ]; then
        choose_python
        asked=yes
    fi
    if [ -f "$stamp" ] && [ "$(wanted_stamp)" = "$(cat "$stamp")" ]; then
        if [ "$asked" = no ] || [ "$(version_of "$python")" = "$(version_of "$py")" ]; then return; fi
    fi

    if [ ! -w "$root" ]; then die "cannot write into $root"; fi
    check_disk "$root"
    if [ "$active" = no ] && [ -L .venv ]; then
        say "note: .venv is a link to $(readlink .venv): what is installed goes there, and metapcg there becomes this copy's"
    fi
    rm -f "$stamp"
    if [ "$active" = no ]; then
        version=$(version_of "$py")
        if [ "$asked" = yes ] && [ "$version" != "$(version_of "$python")" ]; then version=; fi
        if ! supported "$version" || ! "$py" -m pip --version >/dev/null 2>&1; then
            if [ -L .venv ]; then
                die ".venv is a link to $(readlink .venv), which does not fit; remove the link, and this makes a .venv of its own"
            fi
            choose_python
            "$python" -c 'import venv, ensurepip' 2>/dev/null ||
                die "$python cannot make virtual environments (on Debian or Ubuntu: apt install python$(version_of "$python")-venv)"
            say "making .venv with Python $(version_of "$python")"
            "$python" -m venv --clear .venv >/dev/null ||
                die "the virtual environment could not be made with $python; the lines above say why"
            in_environment
        fi
    fi
    "$py" -m pip --version >/dev/null 2>&1 || die "$py has no pip (try: $py -m ensurepip)"
    log=$environment/hw11-setup.log
    : >"$log" || die "cannot write $log"
    run_pip "installing requirements.txt (the first time takes some minutes; log: $log)" install -r requirements.txt
    run_pip "installing the package" install --no-deps -e .
    say "compiling the level engine (once, about half a minute)"
    "$py" -c 'from metapcg.envs.engine import compile_kernels; compile_kernels()' >>"$log" 2>&1 ||
        die "the level engine could not be compiled; log: $log"
    wanted_stamp >"$stamp.tmp" || die "set-up ended, but the environment lacks packages; log: $log"
    mv "$stamp.tmp" "$stamp"
    say "set-up done"
}

set_up

# === commands
metapcg() { HW11_PROGRAM=./compile_and_run.sh "$py" -m metapcg "$@"; }

case $command in
    setup) say "ready: $py" ;;
    compile) metapcg compile ${compile_options[@]+"${compile_options[@]}"} ;;
    run) metapcg run ${run_options[@]+"${run_options[@]}"} ;;
    all)
        metapcg compile
        metapcg run ${run_options[@]+"${run_options[@]}"}
        ;;
    check | submit | release | grade | play | train | adapt | generate | reach)
        HW11_CALLED_FROM=$called_from metapcg "$command" ${command_options[@]+"${command_options[@]}"}
        ;;
    test)
        # What a person has set for runs must not decide what the tests see.
        unset HW11_NOTEBOOKS HW11_OUTPUT HW11_STAGING HW11_CLASS
        "$py" -m pytest ${pytest_options[@]+"${pytest_options[@]}"}
        ;;
esac
