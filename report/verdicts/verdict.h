// What `weightfs verify` finds out about one model: a verdict, with the reasons.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/code/code.h"
#include "formats/completeness.h"
#include "formats/verify.h"

namespace weightfs::verdicts {

enum class State {
  whole,    ///< complete, and all that has a checksum matches
  damaged,  ///< bytes differ, are cut or are missing
  failed    ///< not compared: it is not a model, or a part of it cannot be read now
};

/// "WHOLE".
const char* name_of(State state);

/// The code of a Problem that may run code.
inline constexpr const char* kRunsCode = "runs-code";

struct Problem {
  std::string code;       ///< as error_name(), or kRunsCode
  std::string message;    ///< one line
  std::string file = {};  ///< the file of the model that the message is about, if that is known
};

struct Verdict {
  std::string name;  ///< of the source, with the path of the model in it
  State state;
  std::string text;  ///< what was compared, or the worst that was found
  std::string format = {};
  uint64_t files = 0;  ///< that match their checksums; then ranges of files, tensors, layers, and files without one
  uint64_t ranges = 0;
  uint64_t tensors = 0;
  uint64_t layers = 0;
  uint64_t unchecked = 0;
  bool is_directory = false;           ///< its files are below its name
  std::vector<Problem> problems = {};  ///< at most kMaxKept, as `warnings`
  std::vector<std::string> warnings = {};
  uint64_t more = 0;                ///< problems and warnings that are not kept
  std::vector<CodeItem> code = {};  ///< what may run code when another program loads the model, whatever its state
};

inline constexpr size_t kMaxKept = 10'000;

/// The verdict about a model that was compared.
Verdict judge(const Model& model, const Verification& found, const std::string& name);

/// The verdict about one that cannot be opened.
Verdict failed(const std::string& name, const Error& error);

/// What was found by a search for what may run code.
Problem problem_of_code(const Error& error);
/// Adds such a problem, which does not change the state.
void add_code(Verdict& verdict, const Error& error);

/// How many models there are of each kind.
struct Sum {
  uint64_t whole = 0, damaged = 0, failed = 0;
  uint64_t run_code = 0;      ///< of them, those that run code
  uint64_t may_run_code = 0;  ///< of the others, those that failed a search for what may run code

  void add(const Verdict& verdict);
  uint64_t models() const { return whole + damaged + failed; }
};

/// All that was found.
struct Report {
  std::vector<Verdict> verdicts;
  std::vector<Problem> beside;  ///< of files that no model has; their messages begin with their paths
};

}  // namespace weightfs::verdicts
