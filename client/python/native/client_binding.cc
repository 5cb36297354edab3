// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/security/credentials.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "client/client.h"
#include "client/python/native/bindings.h"
#include "client/python/native/call.h"
#include "client/python/native/process_bound.h"
#include "client/python/native/python_lock.h"
#include "client/python/native/raise.h"
#include "client/python/native/results.h"
#include "client/python/native/strided_reader.h"
#include "client/python/native/view.h"
#include "client/python/native/watch.h"
#include "client/tune_grpc.h"

namespace warpfold::python {
namespace nb = nanobind;
namespace {

// How much of an array with gaps a Writer gathers at a time.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

using PemFiles = std::tuple<std::string, std::string, std::string>;  // authority, certificate, key

std::shared_ptr<Client> MakeClient(std::vector<std::string> targets, int connections, int max_attempts,
                                   const std::optional<PemFiles>& tls) {
  // Python's lock keeps other Python code from changing the environment. It does not keep threads from
  // reading it in C at this moment (docs/adr/0123).
  if (const absl::Status status = TuneGrpc(); !status.ok()) Raise(status);
  ClientOptions options = {.connections = connections, .max_attempts = max_attempts};
  if (tls.has_value()) {
    const auto& [authority, certificate, key] = *tls;
    options.credentials = grpc::SslCredentials({authority, key, certificate});
  }
  return MakeProcessBound<Client>(std::move(targets), options);
}

absl::StatusOr<Reduction> ReduceLayout(Client& client, const Task& task, const Layout& layout,
                                       const CallOptions& options) {
  const std::uint64_t byte_count = layout.byte_count();
  if (layout.is_contiguous()) {
    return client.ReduceBytes(task.spec, task.type, {layout.first, byte_count}, options);
  }
  const StridedReader reader(layout);
  const auto read = [&reader](std::uint64_t offset, std::span<std::byte> buffer) {
    reader.Read(offset, buffer);
  };
  return client.ReduceGenerated(task.spec, task.type, byte_count, read, options);
}

nb::tuple Reduce(Client& client, const View& view, const Task& task, const CallOptions& settings,
                 const nb::object& progress, const std::stop_source* stop) {
  Watch watch(progress);
  watch.Protect(view);
  const CallOptions options = OptionsOf(settings, stop, watch);
  return ResultTuple(Call(watch, [&] { return ReduceLayout(client, task, view.layout(), options); }));
}

// The bytes of an object's buffer, which lie one after another. Threads: those that have Python's lock make
// and destroy one.
class Buffer {
 public:
  explicit Buffer(const nb::handle object) {
    has_ = PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) == 0;
    if (!has_) PyErr_Clear();
  }
  ~Buffer() {
    if (has_) PyBuffer_Release(&buffer_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Whether the object has such a buffer.
  explicit operator bool() const { return has_; }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_ = {};
  bool has_ = false;
};

nb::object ReducePlain(Client& client, const nb::handle array, const Task& task) {
  const Buffer buffer(array);
  if (!buffer) return nb::none();
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf({}, nullptr, watch);
  return FirstNumber(
      Call(watch, [&] { return client.ReduceBytes(task.spec, task.type, buffer.bytes(), options); }));
}

// A Writer and its Watch. The Client must outlive it. Threads: one at a time.
class PieceWriter {
 public:
  PieceWriter(Client& client, const Task& task, const CallOptions& settings, const nb::object& progress,
              const std::stop_source* stop)
      : watch_(progress) {
    const CallOptions options = OptionsOf(settings, stop, watch_);
    writer_ = MakeProcessBound<Writer>(
        Call(watch_, [&] { return client.OpenWriter(task.spec, task.type, options); }));
  }

  // Ends the call unless it was committed. May have to wait for the network.
  void Close() { writer_.reset(); }

  void Write(const View& view) {
    CheckOpen();
    const absl::Cleanup release = [this] { watch_.Release(); };
    watch_.Protect(view);
    Call(watch_, [&] { return WriteLayout(view.layout()); });
  }

  nb::tuple Commit() {
    CheckOpen();
    return ResultTuple(Call(watch_, [&] { return writer_->Commit(); }));
  }

 private:
  void CheckOpen() const {
    if (!writer_) throw nb::value_error("the writer is closed");
  }
  absl::Status WriteLayout(const Layout& layout) {
    const std::uint64_t byte_count = layout.byte_count();
    if (layout.is_contiguous()) return writer_->Write({layout.first, byte_count});
    const StridedReader reader(layout);
    std::vector<std::byte> piece(std::min<std::uint64_t>(byte_count, kPieceBytes));
    for (std::uint64_t offset = 0; offset < byte_count; offset += piece.size()) {
      const std::span<std::byte> part(piece.data(),
                                      std::min<std::uint64_t>(piece.size(), byte_count - offset));
      reader.Read(offset, part);
      if (absl::Status status = writer_->Write(part); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  Watch watch_;
  std::shared_ptr<Writer> writer_;
};

void MakeTask(Task* self, const std::string& type, std::vector<std::string> operators,
              const std::optional<std::pair<std::uint32_t, std::uint32_t>>& matrix,
              std::optional<bool> wrap_overflow, bool ignore_nan, std::optional<std::uint64_t> modulus,
              double ddof, std::string algorithm) {
  const std::optional<ElementType> element_type = ElementTypeByName(type);
  if (!element_type.has_value()) throw nb::value_error("no element type has this name");
  Spec spec = {.operators = std::move(operators),
               .wrap_overflow = wrap_overflow,
               .ignore_nan = ignore_nan,
               .modulus = modulus,
               .ddof = ddof,
               .algorithm = std::move(algorithm)};
  if (matrix.has_value()) spec.matrix_shape = {matrix->first, matrix->second};
  new (self) Task{std::move(spec), *element_type};
}

void MakeSettings(CallOptions* self, std::optional<double> timeout_s, int streams, bool checksum,
                  std::string request_id, std::string traceparent, std::string tracestate) {
  new (self) CallOptions{.request_id = std::move(request_id),
                         .traceparent = std::move(traceparent),
                         .tracestate = std::move(tracestate),
                         .streams = streams,
                         .checksum = checksum};
  if (timeout_s.has_value()) self->timeout = absl::Seconds(*timeout_s);
}

nb::dict Info(Client& client, const CallOptions& settings, const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  return InfoDict(Call(watch, [&] { return client.GetServerInfo(options); }));
}

bool IsServing(Client& client, const CallOptions& settings, const std::stop_source* stop) {
  Watch watch{nb::none()};
  const CallOptions options = OptionsOf(settings, stop, watch);
  return Call(watch, [&] { return client.IsServing(options); });
}

}  // namespace

void BindClient(nb::module_& module) {
  nb::class_<Task>(module, "Task")
      .def("__init__", &MakeTask, nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(),
           nb::arg().none(), nb::arg(), nb::arg());
  nb::class_<CallOptions>(module, "Settings")
      .def("__init__", &MakeSettings, nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg());
  nb::class_<std::stop_source>(module, "Stop")
      .def(nb::init<>())
      // Runs the call's own callbacks for a stop, on this thread.
      .def(
          "request", [](std::stop_source& stop) { stop.request_stop(); }, nb::call_guard<Unlocked>());
  nb::class_<Client> client(module, "Client");
  client.def(nb::new_(&MakeClient), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("reduce", &Reduce, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none())
      .def("reduce_plain", &ReducePlain)
      .def("info", &Info, nb::arg(), nb::arg().none())
      .def("is_serving", &IsServing, nb::arg(), nb::arg().none());
  BindArrays(client);
  BindSegments(client);
  BindParts(client);
  nb::class_<PieceWriter>(module, "Writer")
      .def(nb::init<Client&, const Task&, const CallOptions&, const nb::object&, const std::stop_source*>(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::keep_alive<1, 2>())
      .def("write", &PieceWriter::Write)
      .def("commit", &PieceWriter::Commit)
      .def("close", &PieceWriter::Close);
}

}  // namespace warpfold::python
