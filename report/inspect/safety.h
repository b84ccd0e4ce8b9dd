// Reports what may run code: as one sentence, and as failures of `weightfs verify --safe`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/code/code.h"
#include "formats/model.h"

namespace weightfs {

using ReportError = std::function<void(const Error& error)>;

/// "os.system, builtins.exec when the file is unpickled; and 3 more": the first of what may run code, each with the
/// moment when it runs, in some hundred characters; empty if there is nothing.
std::string reasons_of(const std::vector<CodeItem>& items);

/// Reports what may run code (formats/code/code.h) and names in pickles that are not known: in the model, in the models
/// inside of it, and in the other files of a directory or archive that is one model, such as training_args.bin. A
/// model, archive or pickle that cannot be read is reported, too, because nothing is known of it. `name`: of the model,
/// for messages.
void check_safety(const ModelPtr& model, const std::string& name, const ReportError& report);

/// Checks what the files of a directory that no model has say about code, such as a config.json beside two models.
void check_code(std::vector<Part> files, const std::string& directory, const ReportError& report);

/// Checks a file that no model has, such as a file in a directory of models.
void check_safety(const Part& file, const std::string& directory, const ReportError& report);

}  // namespace weightfs
