# Trials of the portable program by an ordinary user, who mounts by fusermount3, or by fusermount where that is missing.

mounts() {
  mkdir mnt && /weightfs mount ../demo.gguf mnt && cat mnt/metadata.json >mounted && /weightfs umount mnt &&
    /weightfs cat ../demo.gguf metadata.json | cmp - mounted
}

# The program removes a mountpoint that it has made.
unmounts() { /weightfs mount ../demo.gguf new && /weightfs umount new && [ ! -e new ]; }

mounts_for_root_only_if_allowed() { ! /weightfs mount -o allow_other ../demo.gguf other; }
