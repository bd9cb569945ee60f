#!/usr/bin/env bash
# Installs the packages of `./dev package` in a bare Debian 12, and builds and runs an outside C project there: from the
# .tar.xz first, when nothing else is installed, then from the .deb files.
#   packages_test.sh DIRECTORY     as root; DEBIAN_ARCHIVE names the package archive (default: debootstrap's)
set -euo pipefail
packages=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
[ "$(id -u)" = 0 ] || { echo "packages_test.sh: debootstrap and chroot need root" >&2; exit 1; }
root=$(mktemp -d)
clean_up() {
  ! mountpoint -q "$root/proc" || umount "$root/proc"
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT
step() { printf -- '-- %s\n' "$*"; }
inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
install() { inside sh -c "apt-get install -y -q -o Dpkg::Use-Pty=0 $*" >/dev/null; }
expect() {  # TEXT COMMAND...: the command succeeds in the chroot, and its output has the text
  local text=$1 output
  shift
  output=$(inside "$@" 2>&1) || { printf '%s\n' "$output" >&2; echo "failed: $*" >&2; exit 1; }
  [[ $output == *"$text"* ]] || { printf '%s\n' "$output" >&2; echo "expected '$text' from: $*" >&2; exit 1; }
}

step "bare Debian 12"
chmod 755 "$root"  # apt's own user reads the packages
debootstrap --variant=minbase bookworm "$root" ${DEBIAN_ARCHIVE:+"$DEBIAN_ARCHIVE"} >/dev/null
mount -t proc proc "$root/proc"
mkdir "$root/opt/outside" "$root/opt/packages"
cp -r outside/. "$root/opt/outside"
cp "$packages"/*.deb "$packages"/*.tar.xz "$root/opt/packages"

step "the archive, without any other package"
install --no-install-recommends xz-utils
inside sh -c 'mkdir /opt/lathe && tar -C /opt/lathe --strip-components=1 -xf /opt/packages/lathe-*.tar.xz'
expect "cpu" /opt/lathe/bin/lathe devices
expect "right" /opt/lathe/bin/lathe run matmul 5x6x7
expect "right" env LATHE_COMPILER=process LATHE_CACHE_DIR= /opt/lathe/bin/lathe run matmul 5x6x7
expect "sm_90a" /opt/lathe/bin/lathe explain matmul 16x4096x4096 --dtype f16 --facts h200

step "an outside project, from the archive"
install --no-install-recommends gcc g++ libc6-dev make cmake pkg-config
build_outside() {  # NAME [CMAKE ARGUMENTS...]
  expect "Build files" cmake -S /opt/outside -B "/opt/$1" "-DLATHE_COMPONENTS=compiler command" "${@:2}"
  expect "outside_c" cmake --build "/opt/$1"
  expect "right" env LATHE_CACHE_DIR= "/opt/$1/outside_c"
}
build_outside build-archive -DCMAKE_PREFIX_PATH=/opt/lathe
inside sh -c 'cc /opt/outside/outside.c $(PKG_CONFIG_PATH=/opt/lathe/lib/pkgconfig pkg-config --cflags --libs lathe) \
  -Wl,-rpath,/opt/lathe/lib -o /opt/outside_archive'
expect "right" env LATHE_CACHE_DIR= /opt/outside_archive
inside rm -rf /opt/lathe

step "liblathe0 alone: no compiler, generic kernels"
install --no-install-recommends '/opt/packages/liblathe0_*.deb /opt/packages/lathe_*.deb'
expect "liblathe.so.0.1 " ldconfig -p
expect "NOT_AVAILABLE" sh -c 'LATHE_CACHE_DIR= lathe run matmul 5x6x7 || true'
expect "right" env LATHE_CACHE_DIR= lathe run matmul 5x6x7 --miss fallback

step "all packages"
install '/opt/packages/*.deb'
expect "right" env LATHE_CACHE_DIR= lathe run matmul 5x6x7
expect "right" env LATHE_COMPILER=process LATHE_CACHE_DIR= lathe run matmul 5x6x7
build_outside build-packages
inside sh -c 'cc /opt/outside/outside.c $(pkg-config --cflags --libs lathe) -o /opt/outside_packages'
expect "right" env LATHE_CACHE_DIR= /opt/outside_packages
expect "LATHE_0.1" sh -c 'objdump -T /opt/outside_packages | grep lathe_matmul'

step "the BLAS drop-in: an alternative that someone chooses and takes back"
install --no-install-recommends libblas-dev
inside sh -c 'cc /opt/outside/blas.c -lblas -o /opt/outside_blas'
triplet=$(inside gcc -print-multiarch)
name=libblas.so.3-$triplet
served() {  # ENVIRONMENT...: the program's result is right, and Lathe made it
  expect "right" env "$@" /opt/outside_blas
  expect "1 products on Lathe" env LATHE_CACHE_DIR= LATHE_BLAS_VERBOSE=1 LATHE_BLAS_MISS=block LATHE_BLAS_SMALL=0 "$@" \
    /opt/outside_blas
}
expect "Value: /usr/lib/$triplet/openblas" update-alternatives --query "$name"
served LD_PRELOAD=liblathe_blas.so
inside update-alternatives --quiet --set "$name" "/usr/lib/$triplet/liblathe_blas.so"
served
inside apt-get remove -y -q -o Dpkg::Use-Pty=0 liblathe-blas0 >/dev/null
expect "right" /opt/outside_blas
expect "Value: /usr/lib/$triplet/openblas" update-alternatives --query "$name"
install '/opt/packages/liblathe-blas0_*.deb'

step "purged"
inside apt-get purge -y -q -o Dpkg::Use-Pty=0 lathe liblathe0 liblathe-blas0 liblathe-compiler0 liblathe-dev >/dev/null
left=$(inside find /usr /etc /var/lib/dpkg/info /var/lib/dpkg/alternatives -iname '*lathe*' &&
  inside grep -rl lathe /var/lib/dpkg/alternatives || true)
[ -z "$left" ] || { printf 'these files are left after a purge:\n%s\n' "$left" >&2; exit 1; }
echo "packages_test.sh: all right"
