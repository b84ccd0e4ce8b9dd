// A key created for the tests with `ssh-keygen -t ed25519`, without access to anything.
#pragma once

#include <string_view>

namespace weightfs::test {

inline constexpr std::string_view kSshKey =
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
    "QyNTUxOQAAACAEkUPDWtphxKOWEKVHpUfhtDf7ABdZm+ql2l9P2nhJuQAAAJC04fvctOH7\n"
    "3AAAAAtzc2gtZWQyNTUxOQAAACAEkUPDWtphxKOWEKVHpUfhtDf7ABdZm+ql2l9P2nhJuQ\n"
    "AAAEAKTlYhdHUMHrpxxDYHBz40escaEOoHJ2aE/U3c0ZmRbASRQ8Na2mHEo5YQpUelR+G0\n"
    "N/sAF1mb6qXaX0/aeEm5AAAADHRocm93LWF3YXkgYQE=\n"
    "-----END OPENSSH PRIVATE KEY-----\n";

/// Its public half, as id_ed25519.pub has it.
inline constexpr std::string_view kSshPublicKey =
    "AAAAC3NzaC1lZDI1NTE5AAAAIASRQ8Na2mHEo5YQpUelR+G0N/sAF1mb6qXaX0/aeEm5";

}  // namespace weightfs::test
