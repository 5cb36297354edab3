// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "warpfold/v1/arrays.pb.h"
#include "warpfold/v1/reduction.pb.h"
#include "warpfold/v1/segments.pb.h"

namespace warpfold::server {
namespace {

namespace pb = google::protobuf;
namespace reflection = grpc::reflection::v1;
using Files = std::vector<const pb::FileDescriptor*>;

// Each file comes after those that it imports.
void AddWithImports(const pb::FileDescriptor* file, Files* files) {
  if (std::find(files->begin(), files->end(), file) != files->end()) return;
  for (int i = 0; i < file->dependency_count(); ++i) AddWithImports(file->dependency(i), files);
  files->push_back(file);
}

// The files of errors' details are served, too, so that tools can show them.
const Files& ServedFiles() {
  static const Files* const kFiles = [] {
    auto* const files = new Files();
    for (const pb::Descriptor* message :
         {v1::ReduceRequest::descriptor(), v1::PutArrayRequest::descriptor(),
          v1::ReduceSegmentsRequest::descriptor(), grpc::health::v1::HealthCheckRequest::descriptor(),
          reflection::ServerReflectionRequest::descriptor(),
          grpc::reflection::v1alpha::ServerReflectionRequest::descriptor(),
          google::rpc::Status::descriptor()}) {
      AddWithImports(message->file(), files);
    }
    return files;
  }();
  return *kFiles;
}

const pb::FileDescriptor* FileByName(const std::string& name) {
  for (const pb::FileDescriptor* file : ServedFiles()) {
    if (file->name() == name) return file;
  }
  return nullptr;
}

const pb::FileDescriptor* FileOfSymbol(const std::string& symbol) {
  const pb::FileDescriptor* const file =
      pb::DescriptorPool::generated_pool()->FindFileContainingSymbol(symbol);
  const Files& served = ServedFiles();
  return std::find(served.begin(), served.end(), file) == served.end() ? nullptr : file;
}

void SetNotFound(const char* what, reflection::ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(static_cast<int>(absl::StatusCode::kNotFound));
  response->mutable_error_response()->set_error_message(what);
}

void SetFile(const pb::FileDescriptor* file, reflection::ServerReflectionResponse* response) {
  if (file == nullptr) return SetNotFound("this server has no such file or symbol", response);
  Files files;
  AddWithImports(file, &files);
  for (const pb::FileDescriptor* each : files) {
    pb::FileDescriptorProto proto;
    each->CopyTo(&proto);
    response->mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  }
}

void SetServices(reflection::ServerReflectionResponse* response) {
  reflection::ListServiceResponse& services = *response->mutable_list_services_response();
  for (const pb::FileDescriptor* file : ServedFiles()) {
    for (int i = 0; i < file->service_count(); ++i) {
      services.add_service()->set_name(file->service(i)->full_name());
    }
  }
}

}  // namespace

reflection::ServerReflectionResponse Reflect(const reflection::ServerReflectionRequest& request) {
  using Request = reflection::ServerReflectionRequest;
  reflection::ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      SetFile(FileByName(request.file_by_filename()), &response);
      break;
    case Request::kFileContainingSymbol:
      SetFile(FileOfSymbol(request.file_containing_symbol()), &response);
      break;
    case Request::kListServices:
      SetServices(&response);
      break;
    case Request::kFileContainingExtension:
    case Request::kAllExtensionNumbersOfType:
      SetNotFound("proto3's messages have no extensions", &response);
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
      response.mutable_error_response()->set_error_message("the request asks nothing");
      break;
  }
  return response;
}

}  // namespace warpfold::server
