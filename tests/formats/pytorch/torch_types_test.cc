// Types of PyTorch by the names of dtypes and storages.
#include "formats/pytorch/torch_types.h"

#include <gtest/gtest.h>

namespace weightfs::pytorch::torch_types_test {
namespace {

std::string_view name_of(const TorchType* type) { return type == nullptr ? "none" : type->name; }

TEST(TorchTypes, StoragesOfAnyDeviceHaveTheType) {
  EXPECT_EQ(name_of(type_of_storage("torch.FloatStorage")), "float32");
  EXPECT_EQ(name_of(type_of_storage("torch.cuda.BFloat16Storage")), "bfloat16");
  EXPECT_EQ(name_of(type_of_storage("torch.QInt8Storage")), "qint8");
  EXPECT_EQ(name_of(type_of_storage("torch.Storage")), "none");
  EXPECT_EQ(name_of(type_of_storage("torch.UntypedStorage")), "none");
  EXPECT_EQ(name_of(type_of_storage("os.FloatStorage")), "none");
}

TEST(TorchTypes, UntypedStoragesAreRecognized) {
  EXPECT_TRUE(is_untyped_storage("torch.storage.UntypedStorage"));
  EXPECT_TRUE(is_untyped_storage("torch.storage._UntypedStorage"));
  EXPECT_FALSE(is_untyped_storage("torch.FloatStorage"));
}

TEST(TorchTypes, DtypesHaveTheirSize) {
  EXPECT_EQ(type_of_dtype("torch.float8_e4m3fn")->layout.block_bytes, 1U);
  EXPECT_EQ(type_of_dtype("torch.complex32")->layout.block_bytes, 4U);
  EXPECT_EQ(type_of_dtype("torch.complex32")->dtype, &kUnknownDType);
  EXPECT_EQ(type_of_dtype("torch.quint4x2")->layout.packed_bits, 4U);
  EXPECT_EQ(type_of_dtype("torch.float"), nullptr);
  EXPECT_EQ(type_of_dtype("float32"), nullptr);
}

TEST(TorchTypes, ComplexElementsAreTwoNumbers) {
  EXPECT_EQ(type_of_dtype("torch.complex64")->swapped, 4U);
  EXPECT_EQ(type_of_dtype("torch.float64")->swapped, 8U);
}

}  // namespace
}  // namespace weightfs::pytorch::torch_types_test
