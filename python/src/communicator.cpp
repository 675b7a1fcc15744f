#include "communicator.h"

namespace adaact::python {
namespace {

/// The library calls without the GIL.
class PythonCommunicator : public Communicator {
 public:
  PythonCommunicator(std::int64_t rank, std::int64_t size, py::function begin_sum,
                     py::function broadcast)
      : rank_(rank),
        size_(size),
        begin_sum_(std::move(begin_sum)),
        broadcast_(std::move(broadcast)) {}
  ~PythonCommunicator() override {
    const py::gil_scoped_acquire gil;
    begin_sum_ = py::function();
    broadcast_ = py::function();
  }
  PythonCommunicator(const PythonCommunicator&) = delete;
  PythonCommunicator& operator=(const PythonCommunicator&) = delete;

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return size_; }

  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override {
    const py::gil_scoped_acquire gil;
    return std::make_unique<PendingSum>(begin_sum_(std::move(tensors)));
  }
  void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) override {
    const py::gil_scoped_acquire gil;
    broadcast_(tensors, root);
  }

 private:
  class PendingSum : public Pending {
   public:
    explicit PendingSum(py::object wait) : wait_(std::move(wait)) {}
    ~PendingSum() override {
      const py::gil_scoped_acquire gil;
      wait_ = py::object();
    }
    PendingSum(const PendingSum&) = delete;
    PendingSum& operator=(const PendingSum&) = delete;
    void wait() override {
      const py::gil_scoped_acquire gil;
      wait_();
    }

   private:
    py::object wait_;
  };

  std::int64_t rank_;
  std::int64_t size_;
  py::function begin_sum_;
  py::function broadcast_;
};

}  // namespace

std::shared_ptr<Communicator> communicator_of(std::int64_t rank, std::int64_t size,
                                              py::function begin_sum, py::function broadcast) {
  return std::make_shared<PythonCommunicator>(rank, size, std::move(begin_sum),
                                              std::move(broadcast));
}

void register_communicator(py::module_& module) {
  py::class_<Communicator, std::shared_ptr<Communicator>>(module, "Communicator")
      .def(py::init(&communicator_of), py::arg("rank"), py::arg("size"), py::arg("begin_sum"),
           py::arg("broadcast"));
}

}  // namespace adaact::python
