// Answers a request with a SavedModel in TensorFlow's C++ runtime, as TF
// Serving does: op libraries, LoadSavedModel, then one Session::Run.
//
//   run_saved_model <version> <signature> <request> <answer> [op library]...
//
// <version> is the folder of one version. <request> holds a serialized
// NamedTensorProto list: each a little-endian uint32 size and so many bytes.
// <answer> is written in the same form, sorted by name.

#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/protobuf/named_tensor.pb.h"
#include "tensorflow/core/public/session.h"

namespace {

using tensorflow::NamedTensorProto;
using tensorflow::Tensor;

int Fail(const std::string& message) {
  std::cerr << "run_saved_model: error: " << message << std::endl;
  return 1;
}

bool ReadRequest(const std::string& path,
                 std::vector<NamedTensorProto>* request) {
  std::ifstream file(path, std::ios::binary);
  uint32_t size = 0;
  while (file.read(reinterpret_cast<char*>(&size), sizeof(size))) {
    std::string bytes(size, '\0');
    NamedTensorProto tensor;
    if (!file.read(bytes.data(), size) || !tensor.ParseFromString(bytes)) {
      return false;
    }
    request->push_back(tensor);
  }
  return !request->empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    return Fail("expected a version, a signature, a request and an answer");
  }
  const std::string version = argv[1], signature_name = argv[2];
  for (int i = 5; i < argc; ++i) {
    void* handle = nullptr;
    const auto status =
        tensorflow::Env::Default()->LoadDynamicLibrary(argv[i], &handle);
    if (!status.ok()) return Fail(std::string(status.message()));
  }

  tensorflow::SavedModelBundle bundle;
  auto status = tensorflow::LoadSavedModel(tensorflow::SessionOptions(),
                                           tensorflow::RunOptions(), version,
                                           {"serve"}, &bundle);
  if (!status.ok()) return Fail(std::string(status.message()));
  const auto& signatures = bundle.meta_graph_def.signature_def();
  const auto found = signatures.find(signature_name);
  if (found == signatures.end()) {
    return Fail("no signature " + signature_name);
  }

  std::vector<NamedTensorProto> request;
  if (!ReadRequest(argv[3], &request)) {
    return Fail("cannot read the request");
  }
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (const NamedTensorProto& named : request) {
    Tensor tensor;
    const auto input = found->second.inputs().find(named.name());
    if (input == found->second.inputs().end() ||
        !tensor.FromProto(named.tensor())) {
      return Fail("no input " + named.name());
    }
    inputs.emplace_back(input->second.name(), tensor);
  }
  std::vector<std::string> names, tensor_names;
  for (const auto& output : found->second.outputs()) {
    names.push_back(output.first);
    tensor_names.push_back(output.second.name());
  }
  std::vector<Tensor> outputs;
  status = bundle.GetSession()->Run(inputs, tensor_names, {}, &outputs);
  if (!status.ok()) return Fail(std::string(status.message()));

  std::ofstream answer(argv[4], std::ios::binary);
  for (size_t i = 0; i < outputs.size(); ++i) {
    NamedTensorProto named;
    named.set_name(names[i]);
    outputs[i].AsProtoField(named.mutable_tensor());
    const std::string bytes = named.SerializeAsString();
    const uint32_t size = bytes.size();
    answer.write(reinterpret_cast<const char*>(&size), sizeof(size));
    answer.write(bytes.data(), bytes.size());
    std::cout << names[i] << " " << outputs[i].shape().DebugString() << " "
              << outputs[i].SummarizeValue(12) << "\n";
  }
  return answer.good() ? 0 : Fail("cannot write the answer");
}
