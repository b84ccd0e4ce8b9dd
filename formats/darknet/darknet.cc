// Darknet: a .weights file with float32 arrays one after another, whose sizes the .cfg beside it tells.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/common/cursor.h"
#include "formats/common/strided.h"
#include "formats/common/warnings.h"
#include "formats/darknet/config.h"
#include "formats/darknet/network.h"
#include "formats/format.h"
#include "formats/grouped.h"

namespace weightfs {
namespace darknet {
namespace {

constexpr uint64_t kMaxConfigSize = 4 << 20;
constexpr size_t kMaxOperators = 1024;

// The versions of known files: 0.1.0 to 0.2.5. Above kTransposed, a version marks transposed weights.
constexpr int32_t kMaxVersion = 100;
constexpr int32_t kTransposed = 1000;

struct Header {
  int32_t major = 0, minor = 0, revision = 0;
  uint64_t seen = 0;  ///< images that the network was trained with
  uint64_t size = 0;  ///< in bytes

  bool is_transposed() const { return major > kTransposed || minor > kTransposed; }
};

Result<Header> read_header(const Source& file) {
  Cursor in(file, 0, file.size());
  Header header;
  header.major = TRY(in.number<int32_t>());
  header.minor = TRY(in.number<int32_t>());
  header.revision = TRY(in.number<int32_t>());
  const bool is_long =
      int64_t{header.major} * 10 + header.minor >= 2 && header.major < kTransposed && header.minor < kTransposed;
  if (is_long)
    header.seen = TRY(in.number<uint64_t>());
  else
    header.seen = TRY(in.number<uint32_t>());
  header.size = in.position();
  return header;
}

// "yolo.weights" and "yolo.conv.81", the first layers of a network, have "yolo.cfg".
std::string config_name(std::string_view name) {
  const size_t conv = name.rfind(".conv.");
  return fmt::format("{}.cfg", name.substr(0, conv != name.npos ? conv : name.rfind('.')));
}

class Reader {
 public:
  explicit Reader(const Container& container) : container_(container), budget_(*container.budget) {}

  Result<Model> read() {
    header_ = TRY(read_header(*container_.bytes));
    Charges charges(budget_, Charges::Pass::together);  // released with the sections
    const std::vector<Section> sections = TRY(read_config(charges));
    const Network network = TRY(lay_out(sections, header_.is_transposed(), charges));
    at_ = header_.size;
    for (const Array& array : network.arrays) TRY_VOID(add(array));
    if (!network.stopped.empty())
      warnings_.miss_tensors(1, Code::corrupt, "further tensors: {}", network.stopped);
    else if (!has_ended_ && at_ < container_.bytes->size())
      report_rest(container_.bytes->size() - at_);
    TRY_VOID(add_metadata(sections, network));
    model_.format = "darknet";
    model_.version = fmt::format("{}.{}.{}", header_.major, header_.minor, header_.revision);
    model_.parts.insert(model_.parts.begin(), {container_.name, Later<SourcePtr>::of(container_.bytes)});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  Result<std::vector<Section>> read_config(Charges& charges) {
    const std::string name = config_name(container_.name);
    auto file = container_.folder == nullptr ? failure(Code::not_found, "not found") : open_below(container_, name);
    if (!file && (is_fatal(container_, file.error()) || !is_permanent(file.error())))
      return tl::unexpected(file.error());
    if (!file)
      return failure(Code::unsupported,
                     fmt::format("the configuration {}, which tells the layers, is missing beside it: {}", quoted(name),
                                 file.error().message));
    if ((*file)->size() > kMaxConfigSize)
      return failure(Code::unsupported,
                     fmt::format("{}: {} bytes, at most {} are read", quoted(name), (*file)->size(), kMaxConfigSize));
    TRY_VOID(budget_.charge(Cost::input, (*file)->size()));
    model_.parts.push_back({.path = name, .source = Later<SourcePtr>::of(*file), .is_structure = true});
    const std::string text = TRY(read_text(**file, 0, (*file)->size()));
    ends_in_a_line_ = !text.ends_with('\n');
    return parse_config(text, charges).map_error([&](const Error& error) {
      return with_message(error, fmt::format("{}: {}", quoted(name), error.message));
    });
  }

  // The last line of a configuration may lack its line break. If layers seem to be missing, too, it was cut.
  void report_rest(uint64_t bytes) {
    if (ends_in_a_line_)
      warnings_.miss_tensors(0, Code::corrupt,
                             "{} bytes behind the last array, and the configuration ends within a line", bytes);
    else
      warnings_.add("{} bytes behind the last array", bytes);
  }

  // A file may end with any array: it has the first layers of a network then.
  Result<void> add(const Array& array) {
    Tensor tensor;
    tensor.name = array.name;
    tensor.dtype = dtype_named("float32");
    tensor.stored_dtype = tensor.dtype->name;
    tensor.shape = array.shape;
    const uint64_t left = container_.bytes->size() - at_;
    const auto size = size_in_bytes(*tensor.dtype, array.shape);
    if (!has_ended_ && size && *size <= left) {
      const Slice bytes = TRY(slice(container_.bytes, at_, *size));
      tensor.source = array.order == Array::Order::c ? bytes : TRY(exchanged(bytes, array.shape));
      TRY_VOID(charge_gathering(budget_, tensor.source, bytes));
      at_ += *size;
    } else {
      has_ended_ = true;
      warnings_.refuse(Code::corrupt, "tensor {}: {} needed at byte {}, {} left: refused", quoted(tensor.name),
                       size ? counted_bytes(*size) : "too many bytes", at_, left);
    }
    TRY_VOID(budget_.charge(Cost::tensor));
    TRY_VOID(budget_.charge(Cost::kept, tensor.name.size() + sizeof(uint64_t) * tensor.shape.size()));
    model_.tensors.push_back(tensor);
    return {};
  }

  // The elements of a matrix that is stored column by column: the first dimension varies fastest.
  static Result<Slice> exchanged(const Slice& bytes, const Shape& shape) {
    Strides strides = c_strides(shape);
    for (uint64_t& stride : strides) stride *= shape[0];
    strides[0] = 1;
    return strided(bytes, 0, *dtype_named("float32"), shape, strides);
  }

  Result<void> add_metadata(const std::vector<Section>& sections, const Network& network) {
    std::map<std::string, uint64_t> counts;
    for (size_t i = 1; i < sections.size(); ++i) {
      const bool is_new = !counts.contains(sections[i].type);
      ++counts[is_new && counts.size() >= kMaxOperators ? "others" : sections[i].type];
    }
    Map operators, net, input;
    for (const auto& [type, count] : counts) operators.append(type, count);
    for (const auto& [key, value] : sections.front().options)
      if (net.size() < kMaxOperators) net.append(key, value);
    net.keep_last_of_each_key();
    List shape;
    for (const uint64_t size : network.input) shape.emplace_back(size);
    input.append("name", "input");
    input.append("dtype", "float32");
    input.append("shape", std::move(shape));
    model_.metadata.append("seen", header_.seen);
    model_.metadata.append("layers", sections.size() - 1);
    model_.metadata.append("net", std::move(net));
    model_.metadata.append("inputs", List{std::move(input)});
    model_.metadata.append("operators", std::move(operators));
    return charge(footprint(model_.metadata), budget_);
  }

  const Container& container_;
  Budget& budget_;
  Header header_;
  Model model_;
  Warnings warnings_;
  uint64_t at_ = 0;  // of the next array
  bool has_ended_ = false;
  bool ends_in_a_line_ = false;  // the configuration has no line break at its end
};

}  // namespace
}  // namespace darknet

// No magic number: a version, and a name.
Match matches_darknet(const Probe& probe) {
  constexpr size_t kShortest = 16;
  if (probe.head.size() < kShortest) return Match::no;
  if (!probe.name.ends_with(".weights") && probe.name.find(".conv.") == probe.name.npos) return Match::no;
  for (size_t at = 0; at < 12; at += 4) {
    const auto number = static_cast<int32_t>(little_endian(probe.head.substr(at, 4)));
    const bool is_version = number >= 0 && (number < darknet::kMaxVersion || at == 8);
    const bool marks_transposed = at < 8 && number > darknet::kTransposed && number < 2 * darknet::kTransposed;
    if (!is_version && !marks_transposed) return Match::no;
  }
  return Match::maybe;
}

Result<Model> read_darknet(const Container& container) { return darknet::Reader(container).read(); }

}  // namespace weightfs
