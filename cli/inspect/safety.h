// verify --safe: what pickles would run.
#pragma once

#include <string>

#include "cli/console/outcome.h"
#include "formats/model.h"

namespace weightfs {

/// Fails for names in pickles that can run code: in the model, in the models inside of it, and in the other files of a
/// directory or archive that is one model, such as training_args.bin. A model, archive or pickle that cannot be read is
/// a failure, too, because nothing is known of it. `name`: of the model, for messages.
void check_safety(const ModelPtr& model, const std::string& name, Outcome& outcome);

/// Checks a file that no model has, such as a file in a directory of models.
void check_safety(const Part& file, const std::string& directory, Outcome& outcome);

}  // namespace weightfs
