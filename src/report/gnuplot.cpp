#include "report/gnuplot.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <c10/util/Exception.h>

#include "io/printable.h"
#include "report/gnuplot_script.h"
#include "report/heatmap_script.h"
#include "report/plot_svg.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    auto name = (fs::temp_directory_path() / "adaact_plot_XXXXXX").string();
    TORCH_CHECK(::mkdtemp(name.data()) != nullptr, "adaact: cannot make a folder ", name, ": ",
                std::strerror(errno));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// The bytes of a file that gnuplot was to write; none where it did not.
std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Whether gnuplot ended with 0. What it says goes to a file.
bool run_gnuplot(std::string script_file, const fs::path& messages) {
  std::string program = "gnuplot";
  std::string without_personal_settings = "-d";
  char* arguments[] = {program.data(), without_personal_settings.data(), script_file.data(),
                       nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, messages.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, ::environ);
  posix_spawn_file_actions_destroy(&actions);
  TORCH_CHECK(error != ENOENT,
              "adaact: figures need gnuplot, which is not on the PATH; install it: "
              "apt-get install gnuplot-nox");
  TORCH_CHECK(error == 0, "adaact: cannot start gnuplot: ", std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// `make_script` takes the files to draw into, an SVG and a PNG. The SVG comes back as gnuplot wrote it.
RenderedPlot draw(const std::function<std::string(const fs::path&, const fs::path&)>& make_script,
                  const std::string& title) {
  const TemporaryFolder folder;
  const auto script_file = folder / "plot.gp";
  const auto svg_file = folder / "plot.svg";
  const auto png_file = folder / "plot.png";
  const auto message_file = folder / "messages.txt";
  std::ofstream(script_file) << make_script(svg_file, png_file);
  const bool succeeded = run_gnuplot(script_file.string(), message_file);
  RenderedPlot drawn{content_of(svg_file), content_of(png_file)};
  TORCH_CHECK(succeeded && !drawn.svg.empty() && !drawn.png.empty(),
              "adaact: gnuplot could not draw '", title,
              "'; it said: ", in_one_line(content_of(message_file)));
  return drawn;
}

}  // namespace

void check_gnuplot() { run_gnuplot("/dev/null", "/dev/null"); }

RenderedPlot render_plot(const Plot& described, const std::string& id) {
  const auto plot = smoothed(drawable_part(described));
  TORCH_CHECK(!plot.series.empty(), "adaact: the plot '", plot.title,
              "' has no points, expected at least one");
  auto rendered =
      draw([&](const fs::path& svg, const fs::path& png) { return gnuplot_script(plot, svg, png); },
           plot.title);
  std::vector<std::string> names;
  for (const auto index : series_with_bands(plot)) names.push_back(plot.series[index].name);
  for (const auto& series : plot.series) names.push_back(series.name);
  rendered.svg = svg_for_page(rendered.svg, plot.title, names, id);
  return rendered;
}

RenderedPlot render_heatmap(const Heatmap& heatmap, const std::string& id) {
  TORCH_CHECK(heatmap.values.size() == heatmap.rows * heatmap.columns, "adaact: the heatmap '",
              heatmap.title, "' has ", heatmap.values.size(), " values, expected ", heatmap.rows,
              " × ", heatmap.columns);
  TORCH_CHECK(is_drawable(heatmap), "adaact: the heatmap '", heatmap.title,
              "' has no value that can be drawn, expected at least one");
  auto rendered = draw(
      [&](const fs::path& svg, const fs::path& png) { return heatmap_script(heatmap, svg, png); },
      heatmap.title);
  rendered.svg = svg_for_page(rendered.svg, heatmap.title, {heatmap.title}, id);
  return rendered;
}

}  // namespace adaact
