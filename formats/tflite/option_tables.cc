#include "formats/tflite/option_tables.h"

#include <array>

namespace weightfs::tflite {
namespace {

using Kind = OptionKind;

// The enums of options, from 0.
constexpr auto kPadding = std::to_array<std::string_view>({"SAME", "VALID"});
constexpr auto kActivation =
    std::to_array<std::string_view>({"NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"});
constexpr auto kLshProjection = std::to_array<std::string_view>({"UNKNOWN", "SPARSE", "DENSE"});
constexpr auto kWeightsFormat = std::to_array<std::string_view>({"DEFAULT", "SHUFFLED4x16INT8"});
constexpr auto kLstmKernel = std::to_array<std::string_view>({"FULL", "BASIC"});
constexpr auto kCombiner = std::to_array<std::string_view>({"SUM", "MEAN", "SQRTN"});
constexpr auto kMirrorPad = std::to_array<std::string_view>({"REFLECT", "SYMMETRIC"});
constexpr auto kRngAlgorithm = std::to_array<std::string_view>({"DEFAULT", "PHILOX", "THREEFRY"});
constexpr auto kCustomOptionsFormat = std::to_array<std::string_view>({"FLEXBUFFERS"});
constexpr auto kReduceFunction =
    std::to_array<std::string_view>({"UNSUPPORTED", "ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY"});
constexpr auto kPrecision = std::to_array<std::string_view>({"DEFAULT", "HIGH", "HIGHEST"});
constexpr auto kComparisonDirection = std::to_array<std::string_view>(
    {"STABLEHLO_COMPARISON_DIRECTION_EQ", "STABLEHLO_COMPARISON_DIRECTION_NE", "STABLEHLO_COMPARISON_DIRECTION_GE",
     "STABLEHLO_COMPARISON_DIRECTION_GT", "STABLEHLO_COMPARISON_DIRECTION_LE", "STABLEHLO_COMPARISON_DIRECTION_LT"});
constexpr auto kComparisonType =
    std::to_array<std::string_view>({"STABLEHLO_COMPARISON_TYPE_NOTYPE", "STABLEHLO_COMPARISON_TYPE_FLOAT",
                                     "STABLEHLO_COMPARISON_TYPE_FLOAT_TOTAL_ORDER", "STABLEHLO_COMPARISON_TYPE_SIGNED",
                                     "STABLEHLO_COMPARISON_TYPE_UNSIGNED"});

// Fields of several tables.
constexpr OptionField kFusedActivation{"fused_activation_function", Kind::int8, kActivation};
constexpr OptionField kAsymmetric{"asymmetric_quantize_inputs", Kind::boolean};
constexpr OptionField kPotScale{"pot_scale_int16", Kind::boolean, {}, 1};
constexpr OptionField kAxis{"axis", Kind::int32};

// The fields of a table, by their slots, and of others with the same. Tables without fields are only named below.
constexpr auto kConv2DOptions = std::to_array<OptionField>({{"padding", Kind::int8, kPadding},
                                                            {"stride_w", Kind::int32},
                                                            {"stride_h", Kind::int32},
                                                            kFusedActivation,
                                                            {"dilation_w_factor", Kind::int32, {}, 1},
                                                            {"dilation_h_factor", Kind::int32, {}, 1},
                                                            {"quantized_bias_type", Kind::tensor_type}});
constexpr auto kDepthwiseConv2DOptions = std::to_array<OptionField>({{"padding", Kind::int8, kPadding},
                                                                     {"stride_w", Kind::int32},
                                                                     {"stride_h", Kind::int32},
                                                                     {"depth_multiplier", Kind::int32},
                                                                     kFusedActivation,
                                                                     {"dilation_w_factor", Kind::int32, {}, 1},
                                                                     {"dilation_h_factor", Kind::int32, {}, 1}});
constexpr auto kConcatEmbeddingsOptions = std::to_array<OptionField>({{"num_channels", Kind::int32},
                                                                      {"num_columns_per_channel", Kind::int32_list},
                                                                      {"embedding_dim_per_channel", Kind::int32_list}});
constexpr auto kLSHProjectionOptions = std::to_array<OptionField>({{"type", Kind::int8, kLshProjection}});
constexpr auto kPool2DOptions = std::to_array<OptionField>({{"padding", Kind::int8, kPadding},
                                                            {"stride_w", Kind::int32},
                                                            {"stride_h", Kind::int32},
                                                            {"filter_width", Kind::int32},
                                                            {"filter_height", Kind::int32},
                                                            kFusedActivation});
constexpr auto kSVDFOptions = std::to_array<OptionField>({{"rank", Kind::int32}, kFusedActivation, kAsymmetric});
constexpr auto kRNNOptions = std::to_array<OptionField>({kFusedActivation, kAsymmetric});
constexpr auto kFullyConnectedOptions = std::to_array<OptionField>({kFusedActivation,
                                                                    {"weights_format", Kind::int8, kWeightsFormat},
                                                                    {"keep_num_dims", Kind::boolean},
                                                                    kAsymmetric,
                                                                    {"quantized_bias_type", Kind::tensor_type}});
constexpr auto kSoftmaxOptions = std::to_array<OptionField>({{"beta", Kind::float32}});
constexpr auto kConcatenationOptions = std::to_array<OptionField>({kAxis, kFusedActivation});
constexpr auto kAddOptions = std::to_array<OptionField>({kFusedActivation, kPotScale});
constexpr auto kL2NormOptions = std::to_array<OptionField>({kFusedActivation});
constexpr auto kLocalResponseNormalizationOptions = std::to_array<OptionField>(
    {{"radius", Kind::int32}, {"bias", Kind::float32}, {"alpha", Kind::float32}, {"beta", Kind::float32}});
constexpr auto kLSTMOptions = std::to_array<OptionField>({kFusedActivation,
                                                          {"cell_clip", Kind::float32},
                                                          {"proj_clip", Kind::float32},
                                                          {"kernel_type", Kind::int8, kLstmKernel},
                                                          kAsymmetric});
constexpr auto kResizeBilinearOptions = std::to_array<OptionField>({{"new_height", Kind::deprecated},
                                                                    {"new_width", Kind::deprecated},
                                                                    {"align_corners", Kind::boolean},
                                                                    {"half_pixel_centers", Kind::boolean}});
constexpr auto kCallOptions = std::to_array<OptionField>({{"subgraph", Kind::uint32}});
constexpr auto kReshapeOptions = std::to_array<OptionField>({{"new_shape", Kind::int32_list}});
constexpr auto kSkipGramOptions = std::to_array<OptionField>(
    {{"ngram_size", Kind::int32}, {"max_skip_size", Kind::int32}, {"include_all_ngrams", Kind::boolean}});
constexpr auto kSpaceToDepthOptions = std::to_array<OptionField>({{"block_size", Kind::int32}});
constexpr auto kEmbeddingLookupSparseOptions = std::to_array<OptionField>({{"combiner", Kind::int8, kCombiner}});
constexpr auto kGatherOptions = std::to_array<OptionField>({kAxis, {"batch_dims", Kind::int32}});
constexpr auto kReducerOptions = std::to_array<OptionField>({{"keep_dims", Kind::boolean}});
constexpr auto kSqueezeOptions = std::to_array<OptionField>({{"squeeze_dims", Kind::int32_list}});
constexpr auto kSequenceRNNOptions =
    std::to_array<OptionField>({{"time_major", Kind::boolean}, kFusedActivation, kAsymmetric});
constexpr auto kStridedSliceOptions = std::to_array<OptionField>({{"begin_mask", Kind::int32},
                                                                  {"end_mask", Kind::int32},
                                                                  {"ellipsis_mask", Kind::int32},
                                                                  {"new_axis_mask", Kind::int32},
                                                                  {"shrink_axis_mask", Kind::int32},
                                                                  {"offset", Kind::boolean}});
constexpr auto kSplitOptions = std::to_array<OptionField>({{"num_splits", Kind::int32}});
constexpr auto kCastOptions =
    std::to_array<OptionField>({{"in_data_type", Kind::tensor_type}, {"out_data_type", Kind::tensor_type}});
constexpr auto kArgMaxOptions = std::to_array<OptionField>({{"output_type", Kind::tensor_type}});
constexpr auto kTransposeConvOptions = std::to_array<OptionField>({{"padding", Kind::int8, kPadding},
                                                                   {"stride_w", Kind::int32},
                                                                   {"stride_h", Kind::int32},
                                                                   kFusedActivation,
                                                                   {"quantized_bias_type", Kind::tensor_type}});
constexpr auto kSparseToDenseOptions = std::to_array<OptionField>({{"validate_indices", Kind::boolean}});
constexpr auto kShapeOptions = std::to_array<OptionField>({{"out_type", Kind::tensor_type}});
constexpr auto kFakeQuantOptions = std::to_array<OptionField>(
    {{"min", Kind::float32}, {"max", Kind::float32}, {"num_bits", Kind::int32}, {"narrow_range", Kind::boolean}});
constexpr auto kPackOptions = std::to_array<OptionField>({{"values_count", Kind::int32}, kAxis});
constexpr auto kOneHotOptions = std::to_array<OptionField>({kAxis});
constexpr auto kUnpackOptions = std::to_array<OptionField>({{"num", Kind::int32}, kAxis});
constexpr auto kBidirectionalSequenceLSTMOptions = std::to_array<OptionField>({kFusedActivation,
                                                                               {"cell_clip", Kind::float32},
                                                                               {"proj_clip", Kind::float32},
                                                                               {"merge_outputs", Kind::boolean},
                                                                               {"time_major", Kind::boolean, {}, 1},
                                                                               kAsymmetric});
constexpr auto kBidirectionalSequenceRNNOptions = std::to_array<OptionField>(
    {{"time_major", Kind::boolean}, kFusedActivation, {"merge_outputs", Kind::boolean}, kAsymmetric});
constexpr auto kUnidirectionalSequenceLSTMOptions =
    std::to_array<OptionField>({kFusedActivation,
                                {"cell_clip", Kind::float32},
                                {"proj_clip", Kind::float32},
                                {"time_major", Kind::boolean},
                                kAsymmetric,
                                {"diagonal_recurrent_tensors", Kind::boolean}});
constexpr auto kResizeNearestNeighborOptions =
    std::to_array<OptionField>({{"align_corners", Kind::boolean}, {"half_pixel_centers", Kind::boolean}});
constexpr auto kLeakyReluOptions = std::to_array<OptionField>({{"alpha", Kind::float32}});
constexpr auto kMirrorPadOptions = std::to_array<OptionField>({{"mode", Kind::int8, kMirrorPad}});
constexpr auto kUniqueOptions = std::to_array<OptionField>({{"idx_out_type", Kind::tensor_type, {}, 2}});
constexpr auto kReverseSequenceOptions =
    std::to_array<OptionField>({{"seq_dim", Kind::int32}, {"batch_dim", Kind::int32}});
constexpr auto kIfOptions =
    std::to_array<OptionField>({{"then_subgraph_index", Kind::int32}, {"else_subgraph_index", Kind::int32}});
constexpr auto kWhileOptions =
    std::to_array<OptionField>({{"cond_subgraph_index", Kind::int32}, {"body_subgraph_index", Kind::int32}});
constexpr auto kBatchMatMulOptions =
    std::to_array<OptionField>({{"adj_x", Kind::boolean}, {"adj_y", Kind::boolean}, kAsymmetric});
constexpr auto kCumsumOptions = std::to_array<OptionField>({{"exclusive", Kind::boolean}, {"reverse", Kind::boolean}});
constexpr auto kCallOnceOptions = std::to_array<OptionField>({{"init_subgraph_index", Kind::int32}});
constexpr auto kConv3DOptions = std::to_array<OptionField>({{"padding", Kind::int8, kPadding},
                                                            {"stride_d", Kind::int32},
                                                            {"stride_w", Kind::int32},
                                                            {"stride_h", Kind::int32},
                                                            kFusedActivation,
                                                            {"dilation_d_factor", Kind::int32, {}, 1},
                                                            {"dilation_w_factor", Kind::int32, {}, 1},
                                                            {"dilation_h_factor", Kind::int32, {}, 1}});
constexpr auto kHashtableOptions = std::to_array<OptionField>(
    {{"table_id", Kind::int32}, {"key_dtype", Kind::tensor_type}, {"value_dtype", Kind::tensor_type}});
constexpr auto kVarHandleOptions = std::to_array<OptionField>({{"container", Kind::text}, {"shared_name", Kind::text}});
constexpr auto kRandomOptions = std::to_array<OptionField>({{"seed", Kind::int64}, {"seed2", Kind::int64}});
constexpr auto kBucketizeOptions = std::to_array<OptionField>({{"boundaries", Kind::float32_list}});
constexpr auto kGeluOptions = std::to_array<OptionField>({{"approximate", Kind::boolean}});
constexpr auto kStablehloConcatenateOptions = std::to_array<OptionField>({{"dimension", Kind::int64}});
constexpr auto kStablehloBroadcastInDimOptions =
    std::to_array<OptionField>({{"broadcast_dimensions", Kind::int64_list}});
constexpr auto kStablehloSliceOptions = std::to_array<OptionField>(
    {{"start_indices", Kind::int64_list}, {"limit_indices", Kind::int64_list}, {"strides", Kind::int64_list}});
constexpr auto kStablehloConvolutionOptions =
    std::to_array<OptionField>({{"window_strides", Kind::int64_list},
                                {"padding", Kind::int64_list},
                                {"lhs_dilation", Kind::int64_list},
                                {"rhs_dilation", Kind::int64_list},
                                {"window_reversal", Kind::boolean_list},
                                {"input_batch_dimension", Kind::int64},
                                {"input_feature_dimension", Kind::int64},
                                {"input_spatial_dimensions", Kind::int64_list},
                                {"kernel_input_feature_dimension", Kind::int64},
                                {"kernel_output_feature_dimension", Kind::int64},
                                {"kernel_spatial_dimensions", Kind::int64_list},
                                {"output_batch_dimension", Kind::int64},
                                {"output_feature_dimension", Kind::int64},
                                {"output_spatial_dimensions", Kind::int64_list},
                                {"feature_group_count", Kind::int64},
                                {"batch_group_count", Kind::int64},
                                {"precision_config", Kind::uint32_list, kPrecision}});
constexpr auto kStablehloCustomCallOptions = std::to_array<OptionField>({{"call_target_name", Kind::text},
                                                                         {"has_side_effect", Kind::boolean},
                                                                         {"backend_config", Kind::text},
                                                                         {"api_version", Kind::int32},
                                                                         {"called_computations", Kind::int32_list},
                                                                         {"custom_attributes", Kind::bytes}});
constexpr auto kStablehloReduceOptions =
    std::to_array<OptionField>({{"dimensions", Kind::int64_list}, {"body_subgraph_index", Kind::int32}});
constexpr auto kStablehloScatterOptions =
    std::to_array<OptionField>({{"indices_are_sorted", Kind::boolean},
                                {"update_window_dims", Kind::int64_list},
                                {"inserted_window_dims", Kind::int64_list},
                                {"scatter_dims_to_operand_dims", Kind::int64_list},
                                {"index_vector_dim", Kind::int64},
                                {"unique_indices", Kind::boolean},
                                {"update_computation_subgraph_index", Kind::int32}});
constexpr auto kStablehloCompareOptions = std::to_array<OptionField>(
    {{"comparison_direction", Kind::uint32, kComparisonDirection}, {"compare_type", Kind::uint32, kComparisonType}});
constexpr auto kStablehloDynamicSliceOptions = std::to_array<OptionField>({{"slice_sizes", Kind::int64_list}});
constexpr auto kStablehloPadOptions = std::to_array<OptionField>({{"edge_padding_low", Kind::int64_list},
                                                                  {"edge_padding_high", Kind::int64_list},
                                                                  {"interior_padding", Kind::int64_list}});
constexpr auto kStablehloIotaOptions = std::to_array<OptionField>({{"iota_dimension", Kind::int64}});
constexpr auto kStablehloDotGeneralOptions =
    std::to_array<OptionField>({{"lhs_batching_dimensions", Kind::int64_list},
                                {"rhs_batching_dimensions", Kind::int64_list},
                                {"lhs_contracting_dimensions", Kind::int64_list},
                                {"rhs_contracting_dimensions", Kind::int64_list},
                                {"precision_config", Kind::uint32_list, kPrecision}});
constexpr auto kStablehloReduceWindowOptions = std::to_array<OptionField>({{"window_dimensions", Kind::int64_list},
                                                                           {"window_strides", Kind::int64_list},
                                                                           {"base_dilations", Kind::int64_list},
                                                                           {"window_dilations", Kind::int64_list},
                                                                           {"padding", Kind::int64_list},
                                                                           {"body_subgraph_index", Kind::int32}});
constexpr auto kStablehloSortOptions = std::to_array<OptionField>(
    {{"dimension", Kind::int64}, {"is_stable", Kind::boolean}, {"comparator_subgraph_index", Kind::int32}});
constexpr auto kStablehloGatherOptions = std::to_array<OptionField>({{"offset_dims", Kind::int64_list},
                                                                     {"collapsed_slice_dims", Kind::int64_list},
                                                                     {"start_index_map", Kind::int64_list},
                                                                     {"index_vector_dim", Kind::int64},
                                                                     {"slice_sizes", Kind::int64_list},
                                                                     {"indices_are_sorted", Kind::boolean}});
constexpr auto kStablehloTransposeOptions = std::to_array<OptionField>({{"permutation", Kind::int64_list}});
constexpr auto kStablehloRngBitGeneratorOptions =
    std::to_array<OptionField>({{"algorithm", Kind::int8, kRngAlgorithm}});
constexpr auto kReduceWindowOptions = std::to_array<OptionField>({{"reduce_function", Kind::int32, kReduceFunction}});
constexpr auto kStableHLOCompositeOptions =
    std::to_array<OptionField>({{"name", Kind::text},
                                {"decomposition_subgraph_index", Kind::int32},
                                {"composite_attributes", Kind::bytes},
                                {"composite_attributes_format", Kind::int8, kCustomOptionsFormat},
                                {"version", Kind::int32}});
constexpr auto kStablehloCaseOptions = std::to_array<OptionField>({{"branch_subgraph_indices", Kind::int32_list}});

// The members of the union BuiltinOptions, from 1.
constexpr std::array kBuiltinOptions = {
    OptionTable{"Conv2DOptions", kConv2DOptions},
    OptionTable{"DepthwiseConv2DOptions", kDepthwiseConv2DOptions},
    OptionTable{"ConcatEmbeddingsOptions", kConcatEmbeddingsOptions},
    OptionTable{"LSHProjectionOptions", kLSHProjectionOptions},
    OptionTable{"Pool2DOptions", kPool2DOptions},
    OptionTable{"SVDFOptions", kSVDFOptions},
    OptionTable{"RNNOptions", kRNNOptions},
    OptionTable{"FullyConnectedOptions", kFullyConnectedOptions},
    OptionTable{"SoftmaxOptions", kSoftmaxOptions},
    OptionTable{"ConcatenationOptions", kConcatenationOptions},
    OptionTable{"AddOptions", kAddOptions},
    OptionTable{"L2NormOptions", kL2NormOptions},
    OptionTable{"LocalResponseNormalizationOptions", kLocalResponseNormalizationOptions},
    OptionTable{"LSTMOptions", kLSTMOptions},
    OptionTable{"ResizeBilinearOptions", kResizeBilinearOptions},
    OptionTable{"CallOptions", kCallOptions},
    OptionTable{"ReshapeOptions", kReshapeOptions},
    OptionTable{"SkipGramOptions", kSkipGramOptions},
    OptionTable{"SpaceToDepthOptions", kSpaceToDepthOptions},
    OptionTable{"EmbeddingLookupSparseOptions", kEmbeddingLookupSparseOptions},
    OptionTable{"MulOptions", kL2NormOptions},
    OptionTable{"PadOptions", {}},
    OptionTable{"GatherOptions", kGatherOptions},
    OptionTable{"BatchToSpaceNDOptions", {}},
    OptionTable{"SpaceToBatchNDOptions", {}},
    OptionTable{"TransposeOptions", {}},
    OptionTable{"ReducerOptions", kReducerOptions},
    OptionTable{"SubOptions", kAddOptions},
    OptionTable{"DivOptions", kL2NormOptions},
    OptionTable{"SqueezeOptions", kSqueezeOptions},
    OptionTable{"SequenceRNNOptions", kSequenceRNNOptions},
    OptionTable{"StridedSliceOptions", kStridedSliceOptions},
    OptionTable{"ExpOptions", {}},
    OptionTable{"TopKV2Options", {}},
    OptionTable{"SplitOptions", kSplitOptions},
    OptionTable{"LogSoftmaxOptions", {}},
    OptionTable{"CastOptions", kCastOptions},
    OptionTable{"DequantizeOptions", {}},
    OptionTable{"MaximumMinimumOptions", {}},
    OptionTable{"ArgMaxOptions", kArgMaxOptions},
    OptionTable{"LessOptions", {}},
    OptionTable{"NegOptions", {}},
    OptionTable{"PadV2Options", {}},
    OptionTable{"GreaterOptions", {}},
    OptionTable{"GreaterEqualOptions", {}},
    OptionTable{"LessEqualOptions", {}},
    OptionTable{"SelectOptions", {}},
    OptionTable{"SliceOptions", {}},
    OptionTable{"TransposeConvOptions", kTransposeConvOptions},
    OptionTable{"SparseToDenseOptions", kSparseToDenseOptions},
    OptionTable{"TileOptions", {}},
    OptionTable{"ExpandDimsOptions", {}},
    OptionTable{"EqualOptions", {}},
    OptionTable{"NotEqualOptions", {}},
    OptionTable{"ShapeOptions", kShapeOptions},
    OptionTable{"PowOptions", {}},
    OptionTable{"ArgMinOptions", kArgMaxOptions},
    OptionTable{"FakeQuantOptions", kFakeQuantOptions},
    OptionTable{"PackOptions", kPackOptions},
    OptionTable{"LogicalOrOptions", {}},
    OptionTable{"OneHotOptions", kOneHotOptions},
    OptionTable{"LogicalAndOptions", {}},
    OptionTable{"LogicalNotOptions", {}},
    OptionTable{"UnpackOptions", kUnpackOptions},
    OptionTable{"FloorDivOptions", {}},
    OptionTable{"SquareOptions", {}},
    OptionTable{"ZerosLikeOptions", {}},
    OptionTable{"FillOptions", {}},
    OptionTable{"BidirectionalSequenceLSTMOptions", kBidirectionalSequenceLSTMOptions},
    OptionTable{"BidirectionalSequenceRNNOptions", kBidirectionalSequenceRNNOptions},
    OptionTable{"UnidirectionalSequenceLSTMOptions", kUnidirectionalSequenceLSTMOptions},
    OptionTable{"FloorModOptions", {}},
    OptionTable{"RangeOptions", {}},
    OptionTable{"ResizeNearestNeighborOptions", kResizeNearestNeighborOptions},
    OptionTable{"LeakyReluOptions", kLeakyReluOptions},
    OptionTable{"SquaredDifferenceOptions", {}},
    OptionTable{"MirrorPadOptions", kMirrorPadOptions},
    OptionTable{"AbsOptions", {}},
    OptionTable{"SplitVOptions", kSplitOptions},
    OptionTable{"UniqueOptions", kUniqueOptions},
    OptionTable{"ReverseV2Options", {}},
    OptionTable{"AddNOptions", {}},
    OptionTable{"GatherNdOptions", {}},
    OptionTable{"CosOptions", {}},
    OptionTable{"WhereOptions", {}},
    OptionTable{"RankOptions", {}},
    OptionTable{"ReverseSequenceOptions", kReverseSequenceOptions},
    OptionTable{"MatrixDiagOptions", {}},
    OptionTable{"QuantizeOptions", {}},
    OptionTable{"MatrixSetDiagOptions", {}},
    OptionTable{"HardSwishOptions", {}},
    OptionTable{"IfOptions", kIfOptions},
    OptionTable{"WhileOptions", kWhileOptions},
    OptionTable{"DepthToSpaceOptions", kSpaceToDepthOptions},
    OptionTable{"NonMaxSuppressionV4Options", {}},
    OptionTable{"NonMaxSuppressionV5Options", {}},
    OptionTable{"ScatterNdOptions", {}},
    OptionTable{"SelectV2Options", {}},
    OptionTable{"DensifyOptions", {}},
    OptionTable{"SegmentSumOptions", {}},
    OptionTable{"BatchMatMulOptions", kBatchMatMulOptions},
    OptionTable{"CumsumOptions", kCumsumOptions},
    OptionTable{"CallOnceOptions", kCallOnceOptions},
    OptionTable{"BroadcastToOptions", {}},
    OptionTable{"Rfft2dOptions", {}},
    OptionTable{"Conv3DOptions", kConv3DOptions},
    OptionTable{"HashtableOptions", kHashtableOptions},
    OptionTable{"HashtableFindOptions", {}},
    OptionTable{"HashtableImportOptions", {}},
    OptionTable{"HashtableSizeOptions", {}},
    OptionTable{"VarHandleOptions", kVarHandleOptions},
    OptionTable{"ReadVariableOptions", {}},
    OptionTable{"AssignVariableOptions", {}},
    OptionTable{"RandomOptions", kRandomOptions},
    OptionTable{"BucketizeOptions", kBucketizeOptions},
    OptionTable{"GeluOptions", kGeluOptions},
    OptionTable{"DynamicUpdateSliceOptions", {}},
    OptionTable{"UnsortedSegmentProdOptions", {}},
    OptionTable{"UnsortedSegmentMaxOptions", {}},
    OptionTable{"UnsortedSegmentMinOptions", {}},
    OptionTable{"UnsortedSegmentSumOptions", {}},
    OptionTable{"ATan2Options", {}},
    OptionTable{"SignOptions", {}},
    OptionTable{"BitcastOptions", {}},
    OptionTable{"BitwiseXorOptions", {}},
    OptionTable{"RightShiftOptions", {}},
};

// The members of the union BuiltinOptions2, from 1.
constexpr std::array kBuiltinOptions2 = {
    OptionTable{"StablehloConcatenateOptions", kStablehloConcatenateOptions},
    OptionTable{"StablehloBroadcastInDimOptions", kStablehloBroadcastInDimOptions},
    OptionTable{"StablehloSliceOptions", kStablehloSliceOptions},
    OptionTable{"StablehloConvolutionOptions", kStablehloConvolutionOptions},
    OptionTable{"StablehloCustomCallOptions", kStablehloCustomCallOptions},
    OptionTable{"StablehloReduceOptions", kStablehloReduceOptions},
    OptionTable{"StablehloScatterOptions", kStablehloScatterOptions},
    OptionTable{"StablehloCompareOptions", kStablehloCompareOptions},
    OptionTable{"StablehloDynamicSliceOptions", kStablehloDynamicSliceOptions},
    OptionTable{"StablehloPadOptions", kStablehloPadOptions},
    OptionTable{"StablehloIotaOptions", kStablehloIotaOptions},
    OptionTable{"StablehloDotGeneralOptions", kStablehloDotGeneralOptions},
    OptionTable{"StablehloReduceWindowOptions", kStablehloReduceWindowOptions},
    OptionTable{"StablehloSortOptions", kStablehloSortOptions},
    OptionTable{"StablehloWhileOptions", kWhileOptions},
    OptionTable{"StablehloGatherOptions", kStablehloGatherOptions},
    OptionTable{"StablehloTransposeOptions", kStablehloTransposeOptions},
    OptionTable{"DilateOptions", {}},
    OptionTable{"StablehloRngBitGeneratorOptions", kStablehloRngBitGeneratorOptions},
    OptionTable{"ReduceWindowOptions", kReduceWindowOptions},
    OptionTable{"StableHLOCompositeOptions", kStableHLOCompositeOptions},
    OptionTable{"StablehloShiftLeftOptions", {}},
    OptionTable{"StablehloCaseOptions", kStablehloCaseOptions},
};

template <size_t kCount>
const OptionTable* member(const std::array<OptionTable, kCount>& tables, uint8_t number) {
  return number == 0 || number > kCount ? nullptr : &tables[number - 1];
}

}  // namespace

const OptionTable* builtin_options(uint8_t number) { return member(kBuiltinOptions, number); }

const OptionTable* builtin_options_2(uint8_t number) { return member(kBuiltinOptions2, number); }

}  // namespace weightfs::tflite
