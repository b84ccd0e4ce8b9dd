# Trials of the portable program by root, in a directory of their own beside the models. Each function that starts with a letter is
# one, which fails or does not.

mounts() {
  mkdir mnt && /weightfs mount ../demo.gguf mnt && cat mnt/metadata.json >mounted && /weightfs umount mnt &&
    /weightfs cat ../demo.gguf metadata.json | cmp - mounted
}

# Over https, with a certificate that only SSL_CERT_FILE names.
serves() {
  /weightfs serve --listen 127.0.0.1:0 --tls-cert ../tls.pem --tls-key ../tls.key ../demo.gguf >server.log 2>&1 &
  server=$!
  i=0
  until grep -q https:// server.log; do
    i=$((i + 1))
    [ $i -lt 100 ] || return 1
    sleep 0.1
  done
  url=$(sed -n 's|.*\(https://[^ ]*\).*|\1|p' server.log | head -n 1)
  ! /weightfs info --allow-private-urls "${url%/}/files/demo.gguf" || return 1
  SSL_CERT_FILE=$PWD/../tls.pem /weightfs cat --allow-private-urls "${url%/}/files/demo.gguf" metadata.json >served
  status=$?
  kill $server
  [ $status -eq 0 ] && grep -q architecture served
}

user_id() { /weightfs mount -o uid=nobody ../demo.gguf of-nobody && /weightfs umount of-nobody; }

draws() { /weightfs plot ../demo.gguf token_embd.weight -o picture.png && cmp picture.png ../expected.png; }
