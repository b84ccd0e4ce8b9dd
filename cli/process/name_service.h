// Names of hosts, users and groups in a program that is one static file.
#pragma once

namespace weightfs {

/// Looks names up in /etc/hosts, /etc/passwd and /etc/group, and by DNS, whatever nsswitch.conf(5) says: a static
/// program cannot load the host's modules, which were made for another C library (SIGFPE). To be called before the
/// first lookup and the first thread. Does nothing in a dynamic program.
void configure_name_service();

}  // namespace weightfs
