// Objects of Python: pickle.dump and joblib.dump of estimators, arrays, and whatever holds them. Reference:
// Lib/pickle.py of CPython 3.11, joblib/numpy_pickle.py.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/code/list.h"
#include "formats/format.h"
#include "formats/grouped.h"
#include "formats/numpy/later.h"
#include "formats/pickle/hidden.h"
#include "formats/python/boosters.h"
#include "formats/python/compression.h"
#include "formats/python/estimators.h"
#include "formats/python/joblib.h"
#include "formats/python/slices.h"
#include "formats/python/wrapped.h"
#include "formats/pytorch/contents.h"
#include "formats/pytorch/globals.h"
#include "formats/pytorch/legacy.h"

namespace weightfs::python {
namespace {

using pickle::Index;
using pickle::kNoValue;
using pickle::Pickle;

constexpr std::string_view kEval = "builtins.eval";
constexpr std::string_view kLoadFromBytes = "torch.storage._load_from_bytes";

bool is_plain(std::string_view global) {
  return pytorch::is_permitted(global) || numpy::is_plain_name(global) ||
         pickle::in_python_3(global) == "joblib.numpy_pickle.NumpyArrayWrapper";
}

// Whether the byte after PROTO begins an opcode. 0x95 is FRAME.
bool is_opcode(char c) {
  constexpr std::string_view kPrintable = "(.0123FGIJKLMNPQRSTUVXabcdeghijlopqrstu)]}BC";
  const auto byte = static_cast<uint8_t>(c);
  return kPrintable.find(c) != kPrintable.npos || (byte >= 0x81 && byte <= 0x98);
}

bool begins_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 && is_opcode(bytes[2]);
}

// Protocols 0 and 1 have no magic number.
bool is_named_as_pickle(std::string_view name) {
  constexpr auto kSuffixes = std::to_array<std::string_view>(
      {".pkl", ".pickle", ".p", ".sav", ".joblib", ".model", ".pdparams", ".pdopt", ".pk", ".pck", ".pcl"});
  for (const std::string_view packed : {".gz", ".gzip", ".bz2", ".xz", ".lzma", ".lz4", ".z", ".zst"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  return std::ranges::any_of(kSuffixes, [&](std::string_view suffix) { return name.ends_with(suffix); });
}

class PickledModel {
 public:
  explicit PickledModel(const Container& container) : container_(container), contents_(*container.budget) {}

  Result<Model> read() && {
    const SourcePtr bytes = TRY(unpack());
    Cursor cursor(*bytes, 0, bytes->size());
    const JoblibBytes inline_data(*container_.budget);
    const Pickle object = TRY(pickle::read_pickle(cursor, *container_.budget, &inline_data));
    const pickle::File file{bytes, container_.blobs, container_.budget, container_.depth + 1};
    TRY_VOID(walk(object, file));
    TRY_VOID(report_inline(object, *bytes));
    TRY_VOID(report_rest(bytes, cursor, inline_data));
    return model(object, *bytes);
  }

 private:
  Result<SourcePtr> unpack() {
    const uint64_t size = container_.bytes->size();
    const std::string head = TRY(read_text(*container_.bytes, 0, std::min<uint64_t>(size, kHeadSize)));
    const auto compression = begins_pickle(head) ? std::nullopt : compression_of(head);
    if (!compression) return container_.bytes;
    compression_ = compression->name;
    return decompressed(container_.bytes, *compression, container_);
  }

  Result<void> walk(const Pickle& object, const pickle::File& file) {
    pytorch::StorageBytes storages;
    storages.find = [](std::string_view key) -> Result<Slice> {
      return failure(Code::not_found, fmt::format("its storage {} is in another file", quoted(key)));
    };
    storages.load = [&](const Slice& bytes) { return pytorch::storage_in(bytes, file, contents_); };
    numpy::PickledArrays arrays(object, file, contents_);
    pytorch::TensorReader tensors(object, file, storages, arrays, contents_);
    JoblibArrays joblib(object, container_, arrays, contents_);
    WrappedArrays wrapped(object, arrays);
    Boosters boosters(object, file, contents_);
    const std::array<pickle::Objects*, 5> libraries{&wrapped, &joblib, &tensors, &arrays, &boosters};
    TRY_VOID(pickle::walk(object, libraries, "", contents_));
    companions_ = joblib.take_companions();
    boosters_ = boosters.take_parts();
    TRY_VOID(join_slices(object, contents_));
    const auto harmless = [&](std::string_view global) { return is_harmless(object, tensors, global); };
    return pickle::report_globals(object, is_plain, harmless, contents_);
  }

  // pickle.load takes the bytes of joblib's arrays for opcodes.
  Result<void> report_inline(const Pickle& object, const Source& bytes) {
    const auto is_array = [](const pickle::Global& global) {
      return global.text.ends_with("joblib.numpy_pickle.NumpyArrayWrapper");
    };
    if (std::ranges::none_of(object.globals(), is_array)) return {};
    const auto found = TRY(pickle::hidden_names(bytes, 0, *container_.budget));
    for (const std::string& name : found.unknown) TRY_VOID(pickle::add_unknown(name, contents_));
    for (const std::string& name : found.dangerous) {
      const auto is_known = [&](const pickle::Global& global) { return pickle::in_python_3(global.text) == name; };
      if (std::ranges::any_of(object.globals(), is_known)) continue;
      contents_.warnings.add("the bytes of an array name {}: pickle.load can run code from this file", name);
      contents_.dangerous += (contents_.dangerous.empty() ? "" : ", ") + name;
    }
    return {};
  }

  // A call that is data is no danger: one of eval by Paddle, and one that made a storage of a file of torch, whose own
  // globals were added.
  static bool is_harmless(const Pickle& object, const pytorch::TensorReader& tensors, std::string_view global) {
    const std::string name = pickle::in_python_3(global);
    if (name != kEval && name != kLoadFromBytes) return false;
    const std::vector<Index> calls = object.calls_of(global);
    return std::ranges::all_of(calls, [&](Index call) {
      return name == kEval ? array_of_eval(object, call) != kNoValue : tensors.has_loaded(call);
    });
  }

  // pickle.load returns the first pickle, and never reads what follows. A program that loads once more runs that, too.
  Result<void> report_rest(const SourcePtr& all, Cursor& cursor, const JoblibBytes& inline_data) {
    const Source& bytes = *all;
    const uint64_t end = cursor.position(), left = bytes.size() - std::min(bytes.size(), end);
    while (cursor.position() < bytes.size()) {
      const uint64_t at = cursor.position();
      const std::string next = TRY(read_text(bytes, cursor.position(), std::min<uint64_t>(cursor.left(), 3)));
      const auto later = pickle::read_pickle(cursor, *container_.budget, &inline_data);
      if (!later && !is_about_the_bytes(later.error())) return failure(later.error());
      if (!later && (begins_pickle(next) || later.error().code == Code::unsupported ||
                     pickle::names_danger(later.error().message)))
        TRY_VOID(add_later(fmt::format("one cannot be read: {}", later.error().message),
                           fmt::format("a later pickle cannot be read, so it is not known whether it runs code: {}",
                                       later.error().message)));
      if (!later) {
        TRY_VOID(report_arrays(all, at));
        break;
      }
      is_followed_ = true;
      TRY_VOID(pickle::add_unknown(*later, contents_));
      for (const pickle::Global& global : later->globals())
        if (pickle::standing_in(*later, global) == pickle::Standing::dangerous)
          TRY_VOID(add_dangerous(printable(pickle::in_python_3(global.text))));
    }
    if (is_followed_)
      contents_.warnings.add("more pickles follow the first one, which pickle.load returns; they are not shown");
    else if (left > 0)
      contents_.warnings.add("not shown: {} after the pickle", counted_bytes(left));
    return {};
  }

  // Files of NumPy may follow, of objects that are pickles.
  Result<void> report_arrays(const SourcePtr& bytes, uint64_t begin) {
    const auto names = TRY(numpy::later_names(bytes, begin, *container_.budget));
    for (const std::string& name : names.dangerous) TRY_VOID(add_dangerous(name));
    for (const std::string& name : names.unknown) TRY_VOID(pickle::add_unknown(name, contents_));
    return {};
  }

  Result<void> add_dangerous(const std::string& name) {
    return add_later(name, fmt::format("a later pickle names {}: a program that loads it can run code", name));
  }

  Result<void> add_later(const std::string& what, const std::string& warning) {
    is_followed_ = true;
    TRY_VOID(contents_.charges.charge(Cost::kept, what.size() + warning.size()));
    if (later_.insert(what).second) contents_.warnings.add("{}", warning);
    return {};
  }

  Result<Model> model(const Pickle& object, const Source& bytes) {
    Model model;
    model.format = "pickle";
    const std::string head = TRY(read_text(bytes, 0, std::min<uint64_t>(bytes.size(), 2)));
    if (begins_pickle(head + ".")) model.version = std::to_string(static_cast<int>(head[1]));
    Map facts = facts_of(contents_);
    const bool is_joblib = std::ranges::any_of(object.globals(), [](const pickle::Global& global) {
      return global.text.find("joblib.numpy_pickle") != std::string::npos;
    });
    if (is_joblib) facts.append("joblib", true);
    if (!compression_.empty()) facts.append("compression", compression_);
    TRY_VOID(pytorch::add_contents(model, std::move(contents_), std::move(facts)));
    if (!later_.empty()) {
      CodeList code;
      for (const std::string& name : later_) code.add({name, "", kUnpickledLater});
      std::move(code).move_to(model.common);
      model.common.append("later_dangerous_globals", fmt::format("{}", fmt::join(later_, ", ")));
    }
    model.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    for (Part& companion : companions_) model.parts.push_back(std::move(companion));
    TRY_VOID(add_boosters(model, std::move(boosters_), container_));
    return model;
  }

  const Container& container_;
  pytorch::Contents contents_;
  std::string_view compression_;
  std::vector<Part> companions_, boosters_;
  bool is_followed_ = false;     // by other pickles
  std::set<std::string> later_;  // names in them that can run code
};

// Whether it is the object of an archive of torch.save that was unpacked: its storages are files beside it.
Result<bool> is_unpacked_checkpoint(const Container& container) {
  const DirectoryForm& form = format_named("pytorch")->directory;
  if (container.name != form.entry || container.folder == nullptr || !container.folder->lists_files()) return false;
  return form.has_companion([&](std::string_view path) {
    return container.folder->open_below(path, "").has_value();
  }) && TRY(form.identifies(container.bytes));
}

}  // namespace
}  // namespace weightfs::python

namespace weightfs {

Match matches_pickle(const Probe& probe) {
  using namespace python;
  if (begins_pickle(probe.head)) return Match::yes;
  const bool is_named = is_named_as_pickle(probe.name);
  const auto compression = compression_of(probe.head);
  if (!compression) return is_named ? Match::maybe : Match::no;
  constexpr size_t kShown = 3;
  const std::string first = first_decoded(probe.head, *compression, kShown);
  if (begins_pickle(first)) return Match::yes;
  if (!is_named) return Match::no;
  // The head may be too short, as for a block of bzip2, or the file may be cut.
  if (first.size() < kShown && compression->begin == 0) return Match::yes;
  return compression->begin > 0 || first.find('\0') == first.npos ? Match::maybe : Match::no;
}

Result<Model> read_pickle(const Container& container) {
  if (TRY(python::is_unpacked_checkpoint(container))) return read_as("pytorch", container);
  return python::PickledModel(container).read();
}

}  // namespace weightfs
