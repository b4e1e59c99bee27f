// The class of LLVM that Oclgrind's header of kernels returns: a pointer and a length.
#pragma once
#include <cstddef>
namespace llvm {
class StringRef {
    const char* data;
    size_t length;
};
}
