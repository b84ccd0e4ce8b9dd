#include <gmock/gmock.h>

#include "formats/completeness.h"
#include "tests/support/hdf5_reading.h"

namespace weightfs::test::hdf5_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string hdf5_facts(const Model& model) {
  const Value* facts = model.metadata.find("hdf5");
  return facts == nullptr ? "none" : to_json_line(*facts);
}

class Counted final : public Source {
 public:
  explicit Counted(SourcePtr bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    return bytes_->read(offset, out);
  }
  mutable uint64_t reads = 0;

 private:
  SourcePtr bytes_;
};

TEST(Hdf5, OldFileIsReadWithItsGroupsAndAttributes) {
  const Model model = read_h5_well(small_hdf5());
  EXPECT_THAT(listing(model), ElementsAre("deflated float32 H5T_IEEE_F32LE [6] 0123456789abcdefffffffff",
                                          "dense/bias:0 float32 H5T_IEEE_F32BE [1] bbbb",
                                          "dense/kernel:0 float32 H5T_IEEE_F32LE [1x2] wwwwwwww",
                                          HasSubstr("text string H5T_STRING of variable length [1] ")));
  EXPECT_THAT(*model.per_tensor->strings.at(3).get().value(), ElementsAre("name"));
  EXPECT_EQ(to_json_line(*model.metadata.find("keras_version")), "\"2.15.0\"");
  EXPECT_EQ(hdf5_facts(model),
            R"({"superblock_version":0,"groups":2,"datasets":4,"attributes":{"dense":{"units":[1,2]}}})");
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Hdf5, NewFileIsReadWithItsDenseGroupAndArray) {
  const Model model = read_h5_well(small_new_hdf5());
  EXPECT_THAT(listing(model), ElementsAre("vars/0 bfloat16 H5T_OPAQUE of 2 bytes [1] hh",
                                          "vars/1 float32 H5T_IEEE_F32LE [4] 0123456701234567",
                                          "alias bfloat16 H5T_OPAQUE of 2 bytes [1] hh"));
  EXPECT_THAT(hdf5_facts(model), HasSubstr(R"("soft_links":{"alias":"vars/0"})"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Hdf5, ContiguousLittleEndianDatasetIsARangeOfTheFile) {
  Hdf5Builder b;
  const uint64_t at = b.next();
  const Model model = read_h5_well(one_dataset(b, b.dataset(Hdf5Type::f32(), {2}, b.contiguous("12345678"))));
  EXPECT_EQ(model.tensors.at(0).source.offset(), at);
  EXPECT_EQ(model.tensors.at(0).source.whole(), *model.parts.at(0).source.get());
}

TEST(Hdf5, AddressesCountFromTheUserBlock) {
  Hdf5Builder b(0, 1024);
  EXPECT_EQ(only_tensor(one_dataset(b, b.dataset(Hdf5Type::integer(1), {2}, b.contiguous("ab")))), "ab");
}

TEST(Hdf5, LongUserBlockIsFoundInAFileOfAnyName) {
  for (const size_t user_block : {4096U, 8192U, 1U << 20, 1U << 21}) {
    for (const std::string name : {"m.h5", "m.hdf5", "m.nxs", "m", "m.ckpt"}) {
      Hdf5Builder b(0, user_block);
      const std::string text = one_dataset(b, b.dataset(Hdf5Type::integer(1), {2}, b.contiguous("ab")));
      const std::string zeros = std::string(user_block, '\0') + text.substr(user_block);
      for (const std::string& file : {text, zeros}) {
        const Model model = well(read_model({name, in_memory(file)}));
        EXPECT_THAT(listing(model), ElementsAre("w int8 H5T_STD_I8LE [2] ab"));
        EXPECT_THAT(hdf5_facts(model), HasSubstr(fmt::format(R"("user_block":{})", user_block)));
      }
    }
    Hdf5Builder b(0, user_block);
    const Container container{"m.h5", in_memory(b.build(b.group({})))};
    const bool is_found_first = user_block < 1 << 20;
    EXPECT_EQ(is_model(container).value(), is_found_first) << user_block;
    EXPECT_EQ(could_be_model(container).value(), is_found_first) << user_block;
  }
}

TEST(Hdf5, SearchBehindAUserBlockReadsLittle) {
  const auto other = std::make_shared<Counted>(in_memory(std::string(16 << 20, 'x')));
  EXPECT_TRUE(is_model({"m.h5", other}));
  EXPECT_EQ(other->reads, 2 + 8U);  // the head, the tail; 4 KiB to 512 KiB
  const auto part = std::make_shared<Counted>(in_memory(std::string(16 << 20, 'x')));
  EXPECT_FALSE(read_model({"m.h5.part", part}));
  EXPECT_LE(part->reads, 2U);
}

TEST(Hdf5, BigEndianNumbersAreSwapped) {
  Hdf5Builder b;
  EXPECT_EQ(only_tensor(one_dataset(b, b.dataset(Hdf5Type::f64(true), {1}, b.contiguous("12345678")))), "87654321");
}

TEST(Hdf5, DatasetThatWasNeverWrittenHasItsFillValue) {
  Hdf5Builder b;
  const auto nothing = Hdf5Builder::contiguous_at(kNoAddress, 8);
  EXPECT_EQ(only_tensor(one_dataset(b, b.dataset(Hdf5Type::f32(), {2}, nothing, {Hdf5Builder::fill("fill")}))),
            "fillfill");
}

TEST(Hdf5, LinksThatProgramsFollowDifferentlyAreRefused) {
  for (const std::string name : {"a", "b/c", ".", ""}) {
    Hdf5Builder b(3);
    const uint64_t v = b.dataset(Hdf5Type::f32(), {1}, b.contiguous("abcd"));
    const uint64_t w = b.dataset(Hdf5Type::f32(), {1}, b.contiguous("efgh"));
    EXPECT_THAT(h5_error(b.build(b.group({{"a", v}, {name, w}}))),
                HasSubstr(name == "a" ? "two links are called \"a\"" : "is not a valid name of a link"));
  }
}

TEST(Hdf5, HardLinkIsAnotherNameOfADataset) {
  Hdf5Builder b;
  const uint64_t w = b.dataset(Hdf5Type::integer(1), {1}, b.contiguous("w"));
  EXPECT_THAT(listing(read_h5_well(b.build(b.group({{"a", w}, {"b", w}})))),
              ElementsAre("a int8 H5T_STD_I8LE [1] w", "b int8 H5T_STD_I8LE [1] w"));
}

TEST(Hdf5, HardLinkToAGroupAroundItIsNotFollowed) {
  Hdf5Builder b(3);
  const uint64_t root = b.next();
  const Model model = read_h5_well(b.build(b.group({{"loop", root}})));
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_THAT(model.warnings, ElementsAre("\"loop\": a hard link to a group around it, which is not followed"));
}

TEST(Hdf5, SoftLinksAreFollowedThroughGroupsAndOtherLinks) {
  Hdf5Builder b(3);
  const uint64_t w = b.dataset(Hdf5Type::integer(1), {1}, b.contiguous("w"));
  const uint64_t inner = b.group({{"w", w}}, {Hdf5Builder::soft_link("here", "w"), Hdf5Builder::soft_link("up", "/a")});
  const uint64_t outer =
      b.group({{"g", inner}}, {Hdf5Builder::soft_link("deep", "g/here"), Hdf5Builder::soft_link("not-above", "../a")});
  const Model model = read_h5_well(b.build(b.group(
      {{"o", outer}}, {Hdf5Builder::soft_link("a", "b"), Hdf5Builder::soft_link("b", "/o/g/w"),
                       Hdf5Builder::soft_link("dot", "./o//g/./w/"), Hdf5Builder::soft_link("group", "o/g"),
                       Hdf5Builder::soft_link("nothing", "o/none"), Hdf5Builder::soft_link("through", "group/here"),
                       Hdf5Builder::soft_link("to-itself", "to-itself")})));
  std::vector<std::string> names;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    names.emplace_back(model.tensors.at(i).name);
    EXPECT_EQ(text_of(model.tensors.at(i).source), "w");
  }
  EXPECT_THAT(names, ElementsAre("o/g/w", "a", "b", "dot", "o/deep", "o/g/here", "o/g/up", "through"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Hdf5, AtMostSixteenSoftLinksAreFollowed) {
  Hdf5Builder b(3);
  const uint64_t w = b.dataset(Hdf5Type::integer(1), {1}, b.contiguous("w"));
  Hdf5Messages links;
  for (int i = 1; i < 20; ++i)
    links.push_back(Hdf5Builder::soft_link(std::to_string(i), i == 1 ? "w" : std::to_string(i - 1)));
  EXPECT_EQ(read_h5_well(b.build(b.group({{"w", w}}, links))).tensors.size(), 1 + 16U);
}

TEST(Hdf5, LongPathsOfSoftLinksExceedTheBudget) {
  std::string path;
  for (int i = 0; i < 30'000; ++i) path += "a/";
  Hdf5Messages links;
  for (int i = 0; i < 20; ++i) links.push_back(Hdf5Builder::soft_link(std::to_string(i), path));
  Hdf5Builder b(3);
  EXPECT_THAT(h5_error(b.build(b.group({}, links))), HasSubstr("limit"));
}

TEST(Hdf5, ExternalLinkIsNotFollowed) {
  Hdf5Builder b(3);
  const Model model = read_h5_well(b.build(b.group({}, {Hdf5Builder::external_link("far", "/etc/passwd", "/x")})));
  EXPECT_THAT(model.warnings, ElementsAre("\"far\": an external link to \"/etc/passwd:/x\", which is not followed"));
}

TEST(Hdf5, ExternalBytesAndVirtualDatasetsAreRefused) {
  Hdf5Builder b;
  const auto w = b.dataset(Hdf5Type::integer(1), {1}, b.contiguous("w"), {{7, std::string(16, '\0')}});
  EXPECT_THAT(only_tensor(one_dataset(b, w)), HasSubstr("in other files, which are not opened"));
  const auto v = b.dataset(Hdf5Type::integer(1), {1}, {8, std::string("\4\3") + std::string(12, '\0')});
  EXPECT_THAT(only_tensor(one_dataset(b, v)), HasSubstr("a virtual dataset"));
}

TEST(Hdf5, DatasetOutsideOfTheFileIsRefusedAlone) {
  Hdf5Builder b;
  const uint64_t bad = b.dataset(Hdf5Type::f32(), {1 << 20}, Hdf5Builder::contiguous_at(96, 4 << 20));
  const uint64_t good = b.dataset(Hdf5Type::integer(1), {1}, b.contiguous("g"));
  const Model model = read_h5_well(b.build(b.group({{"bad", bad}, {"good", good}})));
  EXPECT_THAT(listing(model),
              ElementsAre("bad float32 H5T_IEEE_F32LE [1048576] refused", "good int8 H5T_STD_I8LE [1] g"));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("tensor \"bad\": 4194304 bytes at offset 96")));
}

TEST(Hdf5, HugeFillValueIsRefused) {
  Hdf5Builder b;
  const auto nothing = Hdf5Builder::contiguous_at(kNoAddress, 0);
  EXPECT_THAT(only_tensor(one_dataset(b, b.dataset(Hdf5Type::f32(), {uint64_t{1} << 40}, nothing))),
              HasSubstr("4398046511104 bytes to be made from a file of"));
}

TEST(Hdf5, DimensionsThatOverflowAreRefused) {
  Hdf5Builder b;
  const Hdf5Builder::Dimensions huge(4, uint64_t{1} << 40);
  EXPECT_THAT(only_tensor(one_dataset(b, b.dataset(Hdf5Type::f32(), huge, b.contiguous("1234")))),
              HasSubstr("more than 2^64 bytes"));
}

TEST(Hdf5, LongTextOfAnAttributeIsADocument) {
  Hdf5Builder b;
  const std::string config = "{" + std::string(2000, ' ') + "}";
  const Model model = read_h5_well(b.build(b.group({}, {Hdf5Builder::text_attribute("model_config", config)})));
  EXPECT_EQ(to_json_line(*model.metadata.find("model_config")),
            R"({"nbytes":2002,"path":"metadata/model_config.json"})");
  ASSERT_EQ(model.documents.size(), 1U);
  EXPECT_EQ(text_of(**model.documents[0].source.get()), config);
}

// Each group has two links to the next one: as many paths as 2^40.
TEST(Hdf5, PathsThatMultiplyExceedTheBudget) {
  Hdf5Builder b(3);
  uint64_t group = b.group({});
  for (int i = 0; i < 40; ++i) group = b.group({{"a", group}, {"b", group}});
  EXPECT_THAT(h5_error(b.build(group)), HasSubstr("limit"));
}

TEST(Hdf5, PathThatIsTooLongIsLeftOutAlone) {
  const std::string name(70'000, 'n');
  Hdf5Builder old;
  const uint64_t w = old.dataset(Hdf5Type::integer(1), {1}, old.contiguous("w"));
  const std::string of_old = old.build(old.group({{"a", w}, {name, w}, {"z", w}}));
  Hdf5Builder b(3);
  const uint64_t v = b.dataset(Hdf5Type::integer(1), {1}, b.contiguous("w"));
  const uint64_t inner = b.group({{std::string(200, 'i'), v}});
  const std::string long_link = std::string("\1\2", 2) + le(65'400, 4) + name.substr(0, 65'400) + le(inner, 8);
  const std::string of_new = b.build(b.group({{"a", v}}, {{6, long_link}, Hdf5Builder::hard_link("z", v)}));
  for (const std::string& file : {of_old, of_new}) {
    const Model model = read_h5_well(file);
    EXPECT_THAT(listing(model), ElementsAre("a int8 H5T_STD_I8LE [1] w", "z int8 H5T_STD_I8LE [1] w"));
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("a path of more than 65535 bytes")));
    EXPECT_EQ(completeness_of(model).reason->code, Code::unsupported);
  }
}

TEST(Hdf5, GroupsNestedTooDeepAreRefused) {
  Hdf5Builder b(3);
  uint64_t group = b.group({});
  for (int i = 0; i < 1000; ++i) group = b.group({{"g", group}});
  EXPECT_THAT(h5_error(b.build(group)), HasSubstr("more than 1000 nested groups"));
}

TEST(Hdf5, PartOfADividedFileIsNotDamaged) {
  for (const auto& [name, driver] : {std::pair{"NCSAfami", "family"}, {"NCSAmult", "multi"}}) {
    Hdf5Builder b;
    const uint64_t at = b.put(le(0, 4) + le(8, 4) + name + le(1024, 8));
    std::string file = b.build(b.group({}));
    file.replace(40, 16, le(file.size() + 5000, 8) + le(at, 8));  // the end of the file, the address of the driver
    const auto model = read_h5(file);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, Code::unsupported);
    EXPECT_THAT(model.error().message, HasSubstr(fmt::format("the driver {} of HDF5", driver)));
  }
}

TEST(Hdf5, ImageOfTheMetadataCacheIsNotDamage) {
  for (const uint16_t message : {uint16_t{24}, uint16_t{20}}) {
    Hdf5Builder b(3);
    const uint64_t extension = b.object({{message, std::string(17, '\0')}});
    std::string file = b.build(b.group({}));
    const std::string head = file.substr(0, 20) + le(extension, 8) + file.substr(28, 16);
    file.replace(0, head.size() + 4, summed(head));
    const auto model = read_h5(file);
    EXPECT_EQ(model.has_value(), message != 24);
    if (!model) EXPECT_EQ(model.error().code, Code::unsupported);
  }
}

TEST(Hdf5, DamagedSuperblockIsRefused) {
  const std::string old = small_hdf5(), recent = small_new_hdf5();
  EXPECT_THAT(h5_error(old.substr(0, old.size() - 1)), HasSubstr("the file ends 1 byte early"));
  std::string wrong = old;
  wrong[8] = 9;
  EXPECT_THAT(h5_error(wrong), HasSubstr("superblock of version 9"));
  wrong = old;
  wrong[13] = '\xFF';
  EXPECT_THAT(h5_error(wrong), HasSubstr("addresses of 255 and lengths of 8 bytes"));
  wrong = recent;
  ++wrong[36];
  EXPECT_THAT(h5_error(wrong), HasSubstr("superblock: checksum"));
}

// One read of a page serves the headers that lie in it.
TEST(Hdf5, MetadataAreReadInPages) {
  constexpr size_t kDatasets = 2000;
  Hdf5Builder b(3);
  Hdf5Builder::Links links;
  for (size_t i = 0; i < kDatasets; ++i)
    links.emplace_back(std::to_string(i), b.dataset(Hdf5Type::integer(1), {1}, Hdf5Builder::contiguous_at(48, 1)));
  const auto counted = std::make_shared<Counted>(in_memory(b.build(b.group(links))));
  const auto model = read_as("hdf5", Container{"m.h5", counted, nullptr});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.size(), kDatasets);
  EXPECT_LE(counted->reads, counted->size() / 16384 + 4);
}

}  // namespace
}  // namespace weightfs::test::hdf5_test
