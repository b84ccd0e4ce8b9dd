#include "cli/process/name_service.h"

#ifdef WEIGHTFS_STATIC
#include <nss.h>
#endif

namespace weightfs {

void configure_name_service() {
#ifdef WEIGHTFS_STATIC
  ::__nss_configure_lookup("hosts", "files dns");
  for (const char* const database : {"passwd", "group", "initgroups", "shadow", "gshadow", "services", "protocols",
                                     "networks", "netgroup", "ethers", "rpc", "aliases", "publickey"})
    ::__nss_configure_lookup(database, "files");
#endif
}

}  // namespace weightfs
