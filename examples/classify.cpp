// Serves a trained model: reads the names of pictures, one in a line, and answers each with a line of its
// likeliest class. Another program can feed it through a pipe; the model is loaded once.
//
//   classify runs/pets/model.safetensors < names.txt
#include <adaact/train/classifier.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: classify MODEL.safetensors < NAMES\n";
    return 2;
  }
  try {
    const adaact::Classifier classifier(argv[1]);
    for (std::string name; std::getline(std::cin, name);) {
      try {
        const auto best = classifier.classify(std::filesystem::path(name), 1).front();
        std::cout << name << '\t' << best.name << '\t' << best.probability << std::endl;
      } catch (const std::exception&) {  // one bad picture does not stop the others
        std::cout << name << "\tno picture\t0" << std::endl;
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
