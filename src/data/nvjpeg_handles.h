#pragma once

// nvJPEG's objects, each with an owner, and what its calls return.

#include <memory>

#include <nvjpeg.h>

namespace adaact {

/// An error that names the call, unless it went well.
void check_nvjpeg(nvjpegStatus_t status, const char* call);

/// Whether it went well. Where it did not that is the file's fault, and for the CPU to say; want of memory is an error.
bool goes_well(nvjpegStatus_t status, const char* call);

template <auto destroy>
struct DestroyByNvjpeg {
  template <class Object>
  void operator()(Object* object) const {
    destroy(object);
  }
};

template <class Object, auto destroy>
using OwnedByNvjpeg = std::unique_ptr<Object, DestroyByNvjpeg<destroy>>;

using NvjpegLibrary = OwnedByNvjpeg<nvjpegHandle, nvjpegDestroy>;
using NvjpegState = OwnedByNvjpeg<nvjpegJpegState, nvjpegJpegStateDestroy>;
using NvjpegFile = OwnedByNvjpeg<nvjpegJpegStream, nvjpegJpegStreamDestroy>;
using NvjpegParameters = OwnedByNvjpeg<nvjpegDecodeParams, nvjpegDecodeParamsDestroy>;
using NvjpegDecoder = OwnedByNvjpeg<nvjpegJpegDecoder, nvjpegDecoderDestroy>;
using NvjpegPinnedBuffer = OwnedByNvjpeg<nvjpegBufferPinned, nvjpegBufferPinnedDestroy>;
using NvjpegDeviceBuffer = OwnedByNvjpeg<nvjpegBufferDevice, nvjpegBufferDeviceDestroy>;

/// What a call makes whose last parameter is where to put it.
template <class Owner, class Create, class... Arguments>
Owner made_by_nvjpeg(const char* call, Create create, Arguments... arguments) {
  typename Owner::pointer made = nullptr;
  check_nvjpeg(create(arguments..., &made), call);
  return Owner(made);
}

/// For RGB side by side.
NvjpegParameters rgb_parameters(nvjpegHandle_t library);

}  // namespace adaact
