//! Pages of what was seen of calls: usage by tenant, tool and upstream, and attachments with their evidence. Both are bounded
//! where they are kept, and are of this pod since its start.

use super::Page;
use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use std::fmt::Write as _;

use crate::telemetry::usage::Used;
use crate::telemetry::{evidence, usage};

/// `GET /admin/usage`: JSON, an HTML table, or text in columns, whichever `Accept` or `?format=` asks for.
pub struct Usage;

impl Page for Usage {
    fn path(&self) -> &'static str {
        "/admin/usage"
    }

    fn verb(&self) -> Method {
        Method::GET
    }

    fn answer(&self, head: &Parts, _: Bytes) -> BoxFuture<'static, Response> {
        let used = usage::used();
        let response = match form(head.uri.query(), &head.headers) {
            Form::Json => json(&serde_json::json!({ "usage": used })),
            Form::Html => typed("text/html; charset=utf-8", html(&used)),
            Form::Text => typed("text/plain; charset=utf-8", text(&used)),
        };
        ready(response).boxed()
    }
}

/// `GET /admin/attachments`: JSON, the last seen first.
pub struct Attachments;

impl Page for Attachments {
    fn path(&self) -> &'static str {
        "/admin/attachments"
    }

    fn verb(&self) -> Method {
        Method::GET
    }

    fn answer(&self, _: &Parts, _: Bytes) -> BoxFuture<'static, Response> {
        ready(json(&serde_json::json!({ "attachments": evidence::told() }))).boxed()
    }
}

#[derive(Debug, PartialEq)]
enum Form {
    Json,
    Html,
    Text,
}

fn form(query: Option<&str>, map: &HeaderMap) -> Form {
    let asked = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("format="));
    let accept = map.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    match asked {
        Some("json") => Form::Json,
        Some("html") => Form::Html,
        Some(_) => Form::Text,
        None if accept.contains("application/json") => Form::Json,
        None if accept.contains("text/html") => Form::Html,
        None => Form::Text,
    }
}

fn json(value: &serde_json::Value) -> Response {
    typed("application/json", format!("{value}\n"))
}

fn typed(kind: &'static str, body: String) -> Response {
    // Names in it are of clients and upstreams: nothing of it is to be run.
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
    ];
    (headers, body).into_response()
}

const HEAD: [&str; 8] = ["tenant", "upstream", "tool", "calls", "errors", "bytes in", "bytes out", "seconds"];

fn cells(row: &Used) -> [String; 8] {
    let tenant = if row.tenant.is_empty() { "-" } else { &row.tenant };
    [
        tenant.to_owned(),
        row.upstream.to_string(),
        // A line is a row whatever a tool is called.
        row.tool.escape_debug().to_string(),
        row.calls.to_string(),
        row.errors.to_string(),
        row.bytes_in.to_string(),
        row.bytes_out.to_string(),
        format!("{:.3}", row.seconds),
    ]
}

fn text(used: &[Used]) -> String {
    let rows: Vec<_> = used.iter().map(cells).collect();
    let mut widths = HEAD.map(str::len);
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
    }
    let mut out = String::new();
    for row in std::iter::once(HEAD.map(str::to_owned)).chain(rows) {
        for (n, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match n {
                0..=2 => write!(out, "{cell:<width$}  "),
                _ => write!(out, "{cell:>width$}  "),
            };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

fn html(used: &[Used]) -> String {
    let mut out = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Usage</title><style>body{font:14px sans-serif}\
         table{border-collapse:collapse}th,td{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}\
         td:nth-child(n+4){text-align:right}</style><h1>Usage of this pod since its start</h1><table><thead><tr>",
    );
    HEAD.iter().for_each(|name| {
        let _ = write!(out, "<th scope=\"col\">{name}</th>");
    });
    out.push_str("</tr></thead><tbody>\n");
    for row in used {
        out.push_str("<tr>");
        for cell in cells(row) {
            let _ = write!(out, "<td>{}</td>", escaped(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></html>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tool: &str) -> Used {
        Used {
            tenant: "acme".into(),
            upstream: "files".into(),
            tool: tool.into(),
            calls: 12,
            errors: 1,
            bytes_in: 3456,
            bytes_out: 7,
            seconds: 1.5,
        }
    }

    #[test]
    fn the_table_is_the_same_in_each_form_and_a_tools_name_runs_nowhere() {
        let used = [row("read"), row("<script>\n")];
        insta::assert_snapshot!(text(&used), @r"
        tenant  upstream  tool        calls  errors  bytes in  bytes out  seconds
        acme    files     read           12       1      3456          7    1.500
        acme    files     <script>\n     12       1      3456          7    1.500
        ");
        assert!(html(&used).contains("<td>&lt;script&gt;\\n</td>"));
    }

    #[test]
    fn a_browser_gets_a_page_and_a_program_what_it_asks_for() {
        let accept = |text: &'static str| HeaderMap::from_iter([(header::ACCEPT, text.parse().unwrap())]);
        assert_eq!(form(None, &accept("text/html,*/*;q=0.8")), Form::Html);
        assert_eq!(form(None, &accept("application/json")), Form::Json);
        assert_eq!(form(None, &accept("*/*")), Form::Text);
        assert_eq!(form(Some("format=json"), &accept("text/html")), Form::Json);
    }
}
