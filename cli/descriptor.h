// The commands' name for base/descriptor.h.
#pragma once

#include "base/descriptor.h"
