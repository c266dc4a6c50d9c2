//! Results of the surface's tools: text that is complete by itself, the same facts as structured content, and those of
//! `_meta.plasm`. What fails is a result too.

use serde_json::{Value as Json, json};

use super::text_block;
use crate::execute::{
    fault::Fault,
    language::{Place, ProgramError},
};

/// The result of `tools/call`, as it goes out.
pub(in crate::execute) type Answer = Json;

/// A result that says these things.
pub(in crate::execute) fn said(text: &str, structured: Json, meta: Option<Json>) -> Answer {
    let mut answer = json!({"content": text_block(text), "structuredContent": structured});
    if let Some(meta) = meta {
        answer["_meta"] = json!({"plasm": meta});
    }
    answer
}

pub(in crate::execute) fn of(result: Result<Answer, Fault>) -> Answer {
    result.unwrap_or_else(|fault| self::fault(&fault))
}

pub(in crate::execute) fn fault(fault: &Fault) -> Answer {
    json!({
        "content": text_block(&worded(fault)),
        "structuredContent": {"error": fault},
        "isError": true,
    })
}

/// A fault as people and models read it.
pub(super) fn worded(fault: &Fault) -> String {
    let at = match (fault.line, fault.col) {
        (Some(line), Some(col)) => format!(" at {line}:{col}"),
        _ => String::new(),
    };
    let mut text = format!("error[{}]{at}: {}\nhint: {}", fault.code, fault.message, fault.hint);
    if let Some(fix) = &fault.fix {
        text += &format!("\nwrite:\n{fix}");
    }
    text
}

/// An error of a program, with its place and its correction.
pub(super) fn of_program(error: ProgramError, program: &str) -> Fault {
    let Place { line, col } = error.place(program);
    let number = |n: usize| u32::try_from(n).ok();
    Fault {
        line: number(line),
        col: number(col),
        fix: error.fix,
        ..Fault::new(error.code.text(), error.message, error.hint)
    }
}
