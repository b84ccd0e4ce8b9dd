// The settings of the user for the object stores and registries of clouds.
#pragma once

#include <memory>

#include "protocols/azure.h"
#include "protocols/registry.h"
#include "protocols/s3.h"

namespace weightfs {

/// As they were read before. Null: the sources of that kind are not supported, and have no keys.
struct CloudSettings {
  std::shared_ptr<const s3::Settings> s3 = nullptr;        ///< for s3://
  std::shared_ptr<const s3::Settings> google = nullptr;    ///< for gs://
  std::shared_ptr<const azure::Settings> azure = nullptr;  ///< for az://
  CloudRegistries registries = {};  ///< those of the sources: they get logins by the keys above and their own

  CloudSettings without_keys() const;
};

}  // namespace weightfs
