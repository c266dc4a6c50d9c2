//! How results look to a person. JSON for scripts is the server's own.

use crate::mcp::Note;
use crate::wire::{Method, Raw};
use base64::Engine as _;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};

/// A line on standard output. A reader that went away (`… | head`) is no failure of ours to report.
pub fn line(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// JSON as it came.
pub fn raw(result: &Raw) {
    line(String::from_utf8_lossy(&result.to_bytes()));
}

/// An error object: JSON on standard output for scripts, and always a line on stderr.
pub fn error(json: bool, error: &Raw) {
    let value: Value = error.read().unwrap_or_default();
    if json {
        line(json!({ "error": value }));
    }
    let code = value["code"].as_i64().map(|code| format!(" {code}")).unwrap_or_default();
    eprintln!("error{code}: {}", value["message"].as_str().unwrap_or("without a message"));
    if let Some(data) = value.get("data").filter(|data| data.get("reason").is_none()) {
        eprintln!("{data}");
    }
    // Our own word for it is short; the log has the reason, where somebody asked for it.
    if code.is_empty() && !tracing::enabled!(tracing::Level::WARN) {
        eprintln!("--verbose shows what happened on the way");
    }
}

/// A notification of a call, on stderr: progress only where somebody watches.
pub fn note(note: &Note, progress: bool) {
    let params: Value = note.params.read().unwrap_or_default();
    match note.method {
        Method::Progress if progress => {
            let total = params.get("total").map(|total| format!("/{total}")).unwrap_or_default();
            let message = params["message"].as_str().unwrap_or_default();
            eprintln!("progress {}{total} {message}", params["progress"]);
        }
        Method::LogMessage => {
            eprintln!("[{}] {}", params["level"].as_str().unwrap_or("info"), text_of(&params["data"]));
        }
        _ => {}
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A block of content: text as it is, all else by what it is.
pub fn block(block: &Value) -> String {
    let bytes = |key: &str| block[key].as_str().map_or(0, |data| data.len() / 4 * 3);
    let mime = block["mimeType"].as_str().unwrap_or("unknown type");
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => format!("[{kind}, {mime}, about {} bytes]", bytes("data")),
        Some("resource_link") => {
            format!("[{}] {}", block["name"].as_str().unwrap_or("resource"), text_of(&block["uri"]))
        }
        Some("resource") => match block["resource"]["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[resource {}]", text_of(&block["resource"]["uri"])),
        },
        _ => block.to_string(),
    }
}

/// A tool's result: its blocks, or what it is structured as where it has none.
pub fn tool_result(result: &Value) -> String {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    match result.get("structuredContent") {
        Some(structured) if blocks.is_empty() => format!("{structured:#}"),
        _ => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
    }
}

/// The contents of a resource. Binary ones go out as they are where they do not go to a terminal.
pub fn contents(result: &Value) {
    for part in result["contents"].as_array().into_iter().flatten() {
        if let Some(text) = part["text"].as_str() {
            let _ = std::io::stdout().write_all(text.as_bytes());
            if !text.ends_with('\n') && std::io::stdout().is_terminal() {
                line("");
            }
            continue;
        }
        let blob =
            base64::engine::general_purpose::STANDARD.decode(part["blob"].as_str().unwrap_or_default());
        match blob {
            Ok(bytes) if !std::io::stdout().is_terminal() => {
                let _ = std::io::stdout().write_all(&bytes);
            }
            Ok(bytes) => {
                let mime = part["mimeType"].as_str().unwrap_or("unknown type");
                line(format_args!("[{mime}, {} bytes]", bytes.len()));
            }
            Err(_) => eprintln!("a part of the resource is not base64"),
        }
    }
}

/// Name and what it is for, in columns.
pub fn table(rows: &[(String, String)]) {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(40);
    for (name, what) in rows {
        line(format!("{name:width$}  {what}").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_content_is_shown_by_what_it_is() {
        let result = json!({"content": [
            {"type": "text", "text": "a\nb"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "name": "doc", "uri": "file:///d"},
            {"type": "resource", "resource": {"uri": "x:y", "text": "inside"}},
            {"type": "new", "x": 1},
        ]});
        insta::assert_snapshot!(tool_result(&result), @r#"
        a
        b
        [image, image/png, about 3 bytes]
        [doc] file:///d
        inside
        {"type":"new","x":1}
        "#);
        assert_eq!(tool_result(&json!({"structuredContent": {"sum": 3}})), "{\n  \"sum\": 3\n}");
    }
}
