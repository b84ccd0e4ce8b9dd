// The option --names of commands that compare models.
#pragma once

#include "cli/options/option.h"
#include "report/compare/names.h"

namespace weightfs {

Option names_option(compare::NameMatching& field);

}  // namespace weightfs
