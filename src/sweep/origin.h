#pragma once

#include <adaact/report/report.h>

#include "report/page.h"

namespace adaact {

/// The end of a page: the command that made it, and the versions.
inline void add_origin_of_page(const ReportOptions& options, Page& page) {
  page.add_heading("How this was made");
  if (!options.command.empty()) {
    page.add(element("pre", element("code", text(options.command))));
  }
  Markup facts;
  for (const auto& [label, value] : options.facts) {
    facts += element("dt", text(label)) + element("dd", text(value));
  }
  if (!facts.html.empty()) page.add(element("dl", facts));
}

}  // namespace adaact
