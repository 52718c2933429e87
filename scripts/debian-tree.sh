# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Minimal Debian trees made by debootstrap, in which nothing of this machine is installed, and commands that run in
# them. Only root can. Sourced by bash, after lib.sh.
#
# From this machine a tree takes /proc, /dev and how apt reaches its mirrors. No mirror is named here.

readonly tree_suite=bookworm

# make_tree FOLDER LOG [OPTION...]   OPTION is debootstrap's. Exports the proxies of apt. Returns 1 if it cannot be
# made, with the reason at the end of LOG.
make_tree() {
    local folder=$1 log=$2 mirror

    # shellcheck disable=SC2016 # expanded by apt-get
    mirror=$(apt-get indextargets --format '$(CODENAME) $(LABEL) $(REPO_URI)' 'Identifier: Packages' |
        awk -v suite=$tree_suite '$1 == suite && $2 == "Debian" { print $NF; exit }')
    [[ $mirror ]] || {
        echo "apt on this machine knows no mirror that has Debian $tree_suite" >"$log"
        return 1
    }
    eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
    [[ -z ${http_proxy-} ]] || export http_proxy
    [[ -z ${https_proxy-} ]] || export https_proxy
    [[ ! -e $folder ]] || rm -rf --one-file-system "$folder"
    mkdir -p "$folder"
    debootstrap --variant=minbase "${@:3}" "$tree_suite" "$folder" "$mirror" >"$log" 2>&1
}

# in_tree FOLDER COMMAND...   Mounts live as long as the command: in a mount namespace of its own. `ip netns` wants a
# root that is a mount, and UCX finds network interfaces in /sys.
in_tree() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private bash -c '
        mount --bind "$0" "$0" && mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" &&
            { mount --rbind /sys "$0/sys" || true; } &&
            cd "$0" && exec chroot "$@"' \
        "$1" "$1" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        TERM=dumb LANG=C.UTF-8 ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} "${@:2}" </dev/null
}
