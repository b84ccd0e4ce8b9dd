// Overviews: which tensors they show, on which scale, and what they show of types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "formats/format.h"
#include "report/plot/cells.h"
#include "report/plot/make.h"
#include "report/plot/text.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/surroundings.h"

namespace weightfs::overview_test {
namespace {

using namespace test;
using plot::HeatMap;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A model of float32 tensors: name, shape, and the number that all of its elements have.
class Tensors {
 public:
  struct Row {
    std::string name;
    std::string shape;
    size_t count;
    float number;
  };

  explicit Tensors(const std::vector<Row>& rows) {
    SafetensorsBuilder builder;
    for (const Row& row : rows) {
      std::string data(row.count * sizeof(float), '\0');
      for (size_t i = 0; i < row.count; ++i) std::memcpy(data.data() + i * sizeof(float), &row.number, sizeof(float));
      builder.tensor(row.name, "F32", row.shape, data);
    }
    model_ = std::make_shared<Model>(read_model({"m.safetensors", in_memory(builder.build())}).value());
  }

  HeatMap overview(plot::Metric metric) const {
    std::vector<plot::NamedTensor> all;
    for (const TensorView& tensor : model_->tensors) all.push_back({std::string(tensor.name), tensor, model_});
    plot::Choices choices;
    choices.metric = metric;
    return plot::overview_of("m", all, {}, choices, [](const plot::NamedTensor&, const Error&) {}).value();
  }

  HeatMap types() const {
    plot::Cells cells;
    for (size_t i = 0; i < model_->tensors.size(); ++i) {
      const std::string name(model_->tensors.name(i));
      cells.add(plot::place_of(name), name, model_->tensors, i);
    }
    return cells.types("m");
  }

 private:
  ModelPtr model_;
};

std::string text_of(const HeatMap& map) {
  std::string out;
  for (const std::string& line :
       plot::to_text({map}, {60, info::Charset::ascii, info::Colours::off}, plot::TextColours::none))
    out += line + "\n";
  return out;
}

TEST(Overview, NormsDoNotTakeTheScaleOfMatrices) {
  const HeatMap map = Tensors({{"h.0.norm.weight", "2", 2, 1},
                               {"h.0.q.weight", "2,2", 4, 0.02F},
                               {"h.1.norm.weight", "2", 2, 1},
                               {"h.1.q.weight", "2,2", 4, 0.03F}})
                          .overview(plot::Metric::rms);
  EXPECT_THAT(map.right.names, ElementsAre("q.weight"));
  EXPECT_EQ(map.note, "without tensors of one dimension");
  EXPECT_FLOAT_EQ(static_cast<float>(map.scale.high), 0.03F);
  EXPECT_THAT(Tensors({{"h.0.norm.weight", "2", 2, 1}}).overview(plot::Metric::rms).right.names,
              ElementsAre("norm.weight"))
      << "without a matrix beside it";
}

TEST(Overview, MagnitudesThatDifferALotHaveALogarithmicScale) {
  const HeatMap map =
      Tensors({{"h.0.q.weight", "2,2", 4, 0.01F}, {"h.1.q.weight", "2,2", 4, 0.1F}, {"h.2.q.weight", "2,2", 4, 1}})
          .overview(plot::Metric::rms);
  EXPECT_TRUE(map.scale.is_log);
  EXPECT_NEAR(map.scale.place_of(0.1), 0.5, 1e-6);
  const std::vector<double> ticks = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1};
  EXPECT_THAT(plot::ticks_of(map.scale, 8), testing::Pointwise(testing::DoubleNear(1e-9), ticks));
  EXPECT_THAT(text_of(map), HasSubstr("RMS, logarithmic: 0.01 to 1"));
}

TEST(Overview, EqualNumbersAreASentence) {
  const HeatMap map =
      Tensors({{"h.0.q.weight", "2,2", 4, 2}, {"h.1.q.weight", "2,2", 4, 2}}).overview(plot::Metric::bits);
  EXPECT_EQ(map.sentence(), "bits per element: all 32");
  EXPECT_THAT(text_of(map), testing::EndsWith("\n bits per element: all 32\n"));
  EXPECT_THAT(text_of(map), testing::Not(HasSubstr("h.0"))) << "there is no block of one colour";
}

TEST(Overview, ExpertsAreOneColumn) {
  const HeatMap map =
      Tensors({{"h.0.experts.0.up", "1,2", 2, 3}, {"h.0.experts.1.up", "1,2", 2, 4}, {"h.1.experts.0.up", "1,2", 2, 0}})
          .overview(plot::Metric::rms);
  EXPECT_THAT(map.right.names, ElementsAre("experts.*.up"));
  EXPECT_THAT(map.values, ElementsAre(testing::DoubleNear(std::sqrt(12.5), 1e-9), 0));
}

TEST(Overview, TypesAreCategories) {
  SafetensorsBuilder builder;
  builder.tensor("h.0.q", "F32", "1", "four").tensor("h.1.q", "F16", "1", "22").tensor("h.0.k", "F16", "1", "22");
  const Model model = read_model({"m.safetensors", in_memory(builder.build())}).value();
  plot::Cells cells;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const std::string name(model.tensors.name(i));
    cells.add(plot::place_of(name), name, model.tensors, i);
  }
  const HeatMap map = cells.types("m");
  EXPECT_THAT(map.categories, ElementsAre("float32", "float16"));
  EXPECT_THAT(map.sentence(), IsEmpty());
  EXPECT_THAT(text_of(map), HasSubstr("a float32, b float16"));
  EXPECT_EQ(Tensors({{"h.0.q", "1", 1, 1}, {"h.1.q", "1", 1, 2}}).types().sentence(), "type: all float32");
}

}  // namespace
}  // namespace weightfs::overview_test
