#!/usr/bin/env bash
# Installs what the tests need into target/tools, and says what it could not bring. Nothing is done twice.
#
#   venv/   open-terminal, and what the checks written in Python need
#   npm/    the coding agent's CLI
#
# System packages are installed only as root, and only those that are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."

python_packages=(open-terminal==0.14.5 discord.py==2.7.1 jsonschema==4.26.0)
agent_version=2.1.197

tools=$PWD/target/tools
mkdir -p "$tools"
lacking=()

has() { command -v "$1" >/dev/null 2>&1; }

# Runs a command quietly; shows what it said only if it failed.
quietly() {
    local said
    said=$("$@" 2>&1 </dev/null) || {
        printf '%s\n' "$said" | tail -n 20 >&2
        return 1
    }
}

system_packages() {
    # Each program, and the Debian package that brings it.
    local pairs=(
        bwrap:bubblewrap socat:socat sudo:sudo flock:util-linux setpriv:util-linux setsid:util-linux
        find:findutils xargs:findutils git:git python3:python3 npm:npm useradd:passwd
    )
    local pair missing=()
    for pair in "${pairs[@]}"; do
        has "${pair%%:*}" || missing+=("${pair##*:}")
    done
    if has python3 && ! python3 -c 'import ensurepip' 2>/dev/null; then
        missing+=(python3-venv)
    fi
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -eq 0 ] && has apt-get; then
        export DEBIAN_FRONTEND=noninteractive
        quietly apt-get update -q || true
        quietly apt-get install -q -y --no-install-recommends "${missing[@]}" || true
    fi
    for pair in "${pairs[@]}"; do
        has "${pair%%:*}" || lacking+=("${pair%%:*}: install the package ${pair##*:}")
    done
}

# Remembers in a file what was installed, so that a second run has nothing to do.
python_environment() {
    local stamp=$tools/venv/installed wanted="${python_packages[*]}"
    [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ] || return 0
    if [ ! -x "$tools/venv/bin/pip" ]; then
        rm -rf "$tools/venv"
        quietly python3 -m venv "$tools/venv" || { lacking+=("a Python environment: python3 -m venv failed"); return 0; }
    fi
    if quietly "$tools/venv/bin/pip" install --quiet --disable-pip-version-check "${python_packages[@]}"; then
        printf '%s\n' "$wanted" >"$stamp"
    else
        lacking+=("Python packages ($wanted): pip failed")
    fi
}

# The platform's own package holds the program; the install script of the main one, which may be blocked, is not needed.
agent() {
    local machine program
    case "$(uname -m)" in
        aarch64 | arm64) machine=arm64 ;;
        *) machine=x64 ;;
    esac
    program=$tools/npm/node_modules/@anthropic-ai/claude-code-linux-$machine/claude
    if [ -x "$program" ] && "$program" --version 2>/dev/null | grep -qF "$agent_version"; then
        return 0
    fi
    quietly npm install --prefix "$tools/npm" --no-audit --no-fund --no-save --loglevel=error \
        "@anthropic-ai/claude-code@$agent_version" || true
    chmod +x "$program" 2>/dev/null || true
    [ -x "$program" ] || lacking+=("the agent's CLI $agent_version: npm failed")
}

system_packages
! has python3 || python_environment
! has npm || agent

if [ ${#lacking[@]} -gt 0 ]; then
    echo "The tests lack:" >&2
    printf '  %s\n' "${lacking[@]}" >&2
    exit 1
fi
