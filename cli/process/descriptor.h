// The commands' name for base/os/descriptor.h.
#pragma once

#include "base/os/descriptor.h"
