#!/bin/sh
# Installs weightfs from this directory, or removes it:
#
#   ./install.sh [--prefix DIR] [--uninstall]
#
# DIR is /usr/local for root, and ~/.local for others. The program also runs where it lies, without being installed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
uninstall=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --prefix) [ $# -gt 1 ] || { echo "install.sh: --prefix needs a directory" >&2; exit 2; }; prefix=$2; shift ;;
    --prefix=*) prefix=${1#*=} ;;
    --uninstall) uninstall=yes ;;
    *) echo "install.sh: $1: unknown option; see --help" >&2; exit 2 ;;
  esac
  shift
done
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
[ "$prefix" = / ] || prefix=${prefix%/}

# Where a file of tree/ is installed. systemd looks for an ordinary user's units in ~/.local/share only.
place() {
  case $1 in
    lib/systemd/user/*) if [ "$(id -u)" -eq 0 ]; then echo "$prefix/$1"; else echo "$prefix/share/${1#lib/}"; fi ;;
    *) echo "$prefix/$1" ;;
  esac
}

# The files of the system's services, which an ordinary user cannot use, are root's only.
files() {
  cd "$here/tree"
  find . -type f -o -type l | sed 's|^\./||' | sort | while read -r file; do
    case $file in
      lib/systemd/system/* | lib/sysusers.d/* | lib/tmpfiles.d/*) [ "$(id -u)" -eq 0 ] || continue ;;
    esac
    echo "$file"
  done
}

generator=$prefix/lib/systemd/system-generators/weightfs-generator

if [ -n "$uninstall" ]; then
  files | while read -r file; do rm -f "$(place "$file")"; done
  rm -f "$prefix/bin/weightfs" "$prefix/sbin/mount.weightfs" "$prefix/sbin/mount.fuse.weightfs" "$generator"
  # Directories that only weightfs used.
  rm -rf "$prefix/share/doc/weightfs"
  rmdir "$prefix/libexec/weightfs" 2>/dev/null || :
  echo "removed weightfs from $prefix"
  exit
fi

# A running server keeps its file: the new one takes its name.
mkdir -p "$prefix/bin"
cp "$here/weightfs" "$prefix/bin/.weightfs.new"
chmod 755 "$prefix/bin/.weightfs.new"
mv -f "$prefix/bin/.weightfs.new" "$prefix/bin/weightfs"
# The prefix for sed: with `|`, `&` and `\` escaped.
escaped=$(printf '%s' "$prefix" | sed 's/[|&\\]/\\&/g')
files | while read -r file; do
  target=$(place "$file")
  mkdir -p "$(dirname "$target")"
  rm -f "$target"
  if [ -L "$here/tree/$file" ]; then
    cp -P "$here/tree/$file" "$target"
  else
    # Units and the desktop entry name the program by its path.
    case $file in
      lib/* | libexec/* | share/applications/*)
        sed "s|/usr/local/|$escaped/|g" "$here/tree/$file" >"$target" ;;
      *) cp "$here/tree/$file" "$target" ;;
    esac
    case $file in libexec/*) chmod 755 "$target" ;; *) chmod 644 "$target" ;; esac
  fi
done
if [ "$(id -u)" -eq 0 ]; then
  mkdir -p "$prefix/sbin" "$(dirname "$generator")"
  ln -sf ../bin/weightfs "$prefix/sbin/mount.weightfs"
  ln -sf ../bin/weightfs "$prefix/sbin/mount.fuse.weightfs"
  ln -sf ../../../bin/weightfs "$generator"
fi
echo "installed $prefix/bin/weightfs"
case :$PATH: in *:"$prefix/bin":*) ;; *) echo "add $prefix/bin to PATH to run it as weightfs" ;; esac
if [ "$(id -u)" -eq 0 ] && [ "$prefix" != /usr ]; then
  echo "for mount -t weightfs and /etc/fstab: ln -s $prefix/bin/weightfs /sbin/mount.weightfs"
fi
if [ "$(id -u)" -ne 0 ] && ! command -v fusermount3 >/dev/null && ! command -v fusermount >/dev/null; then
  echo "ordinary users mount through fusermount3: install the package fuse3"
fi
