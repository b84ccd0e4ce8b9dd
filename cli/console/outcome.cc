#include "cli/console/outcome.h"

#include <fmt/core.h>

#include "cli/console/report_error.h"
#include "formats/completeness.h"

namespace weightfs {

void Outcome::fail(const Error& error) {
  log_to_stderr(error.message);
  note(error);
}

void Outcome::note(const Error& error) { worst_ = worst_ ? worse(*worst_, error) : error; }

void Outcome::check(const Model& model, const std::string& name) {
  const Completeness completeness = completeness_of(model);
  if (!completeness.is_complete())
    fail({completeness.reason->code, fmt::format("{}: {}", name, to_sentence(completeness))});
}

}  // namespace weightfs
