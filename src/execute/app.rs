//! The pages that hosts of MCP Apps show beside a plan and a run: each one file of HTML with nothing outside it. Knows
//! nothing of sessions; what a page shows, the host hands to it.

/// What a page is served as, byte for byte.
pub const MIME: &str = "text/html;profile=mcp-app";
/// Rows of a run.
pub const RUN_EXPLORER: Page = Page {
    uri: "ui://plasm/run-explorer",
    html: concat!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Run explorer</title><style>\n",
        include_str!("app/app.css"),
        "</style></head><body><main></main><script>\n",
        include_str!("app/host.js"),
        include_str!("app/run_explorer.js"),
        "</script></body></html>\n",
    ),
};
/// A plan before it is run.
pub const PLAN_REVIEW: Page = Page {
    uri: "ui://plasm/plan-review",
    html: concat!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Plan review</title><style>\n",
        include_str!("app/app.css"),
        "</style></head><body><main></main><script>\n",
        include_str!("app/host.js"),
        include_str!("app/plan_review.js"),
        "</script></body></html>\n",
    ),
};

/// A resource of the extension `io.modelcontextprotocol/ui`.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub uri: &'static str,
    pub html: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_nothing_and_writes_no_markup() {
        for page in [RUN_EXPLORER, PLAN_REVIEW] {
            let html = page.html.replace("http://www.w3.org/2000/svg", "");
            for bad in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "fetch(",
            ] {
                assert!(!html.contains(bad), "{}: {bad}", page.uri);
            }
            assert_eq!(html.matches("</script>").count(), 1, "{}", page.uri);
        }
    }
}
