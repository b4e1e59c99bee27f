// The types of OpenCL's header that Oclgrind's headers name; its wheel has its own headers alone.
#pragma once
#include <cstddef>
#include <cstdint>
typedef uint64_t cl_mem_flags;
typedef uint64_t cl_map_flags;
typedef uint32_t cl_program_binary_type;
typedef struct {
    uint32_t image_channel_order, image_channel_data_type;
} cl_image_format;
typedef struct {
    uint32_t image_type;
    size_t image_width, image_height, image_depth, image_array_size, image_row_pitch, image_slice_pitch;
    uint32_t num_mip_levels, num_samples;
    void* mem_object;
} cl_image_desc;
