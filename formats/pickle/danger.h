// The names in a pickle that unpickling would import: which of them are harmless, and which are typical of malware.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weightfs::pickle {

/// A name that unpickling would import. What is computed while unpickling is `?`.
struct Global {
  std::string text;    ///< "module.name"; `name` may have dots itself
  size_t module_size;  ///< of "module", in bytes
};

/// What is known of a global.
enum class Standing {
  harmless,   ///< in the list of names that only make plain values (harmless_names.h)
  unknown,    ///< in no list: importing and calling it runs the code of its package
  dangerous,  ///< it runs programs, loads code or reaches other functions by their names
};

/// Names of Python 2 count as those of Python 3.
Standing standing_of(const Global& global);

/// Whether it is dangerous.
bool can_run_code(const Global& global);

/// The name of Python 3: "builtins.eval" of "__builtin__.eval".
std::string in_python_3(std::string_view global);

/// The end of a message about a pickle that is damaged: " (before that it names posix.system, which can run code)".
/// Empty if none of the names can run code.
std::string before_an_error(const std::vector<Global>& globals);

/// Whether a message has the end that before_an_error() makes.
bool names_danger(std::string_view message);

}  // namespace weightfs::pickle
