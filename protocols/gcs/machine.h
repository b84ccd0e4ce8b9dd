// Whether this machine is one of Google.
#pragma once

#include <string>

namespace weightfs::gcs {

/// Whether it is an instance of Compute Engine, or a node of its Kubernetes, by the product in DMI. (google-auth:
/// compute_engine/_metadata.py, detect_gce_residency_linux.) The file is read once, because a sandbox hides it.
bool is_machine_of_google();
bool is_product_of_google(const std::string& file);

}  // namespace weightfs::gcs
