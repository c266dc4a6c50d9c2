//! What the surface says of itself: its tools with their schemas, and the instructions that teach the flow.

use serde_json::{Value as Json, json};

use crate::execute::{
    app::{PLAN_REVIEW, Page, RUN_EXPLORER},
    artifacts::MOST_ROWS,
};

pub(super) const DISCOVER: &str = "discover_capabilities";
pub(super) const CONTEXT: &str = "plasm_context";
pub(super) const PLAN: &str = "plasm";
pub(super) const RUN: &str = "plasm_run";
pub(super) const READ: &str = "plasm_read_run_artifact";
/// For the run explorer alone.
pub(super) const PAGE: &str = "plasm_ui_read_run";
pub(super) const NAMES: [&str; 6] = [DISCOVER, CONTEXT, PLAN, RUN, READ, PAGE];

pub(super) const INSTRUCTIONS: &str = "\
Typed access to many APIs through small programs.
1. discover_capabilities finds entities (api and entity) by a sentence.
2. plasm_context opens a session over the entities that you need and returns a handle (l_…) and a table of every expression \
that is legal, with symbols e1, r1, m1. Use nothing that the table does not show. Call it again with more seeds when you need more.
3. plasm plans a program: one statement a line, `name = …` binds, the last line is what comes back. Text stands in double quotes. \
It shows what is read, every write, and a verdict, and gives a run_ref.
4. plasm_run carries out a run_ref, once if it writes. A program that only reads can be run at once: plasm with mode \"auto\".
5. plasm_read_run_artifact reads what of a result was not shown, by its artifact_uri; or read that URI as a resource.
Errors name the place, a hint and often the corrected program: use it as it stands.";

/// What a tool does to the world.
pub(in crate::execute) fn annotations(
    title: &str,
    reads: bool,
    destroys: bool,
    idempotent: bool,
    open: bool,
) -> Json {
    json!({
        "title": title,
        "readOnlyHint": reads,
        "destructiveHint": destroys,
        "idempotentHint": idempotent,
        "openWorldHint": open,
    })
}

/// An object of these members, of which none is required: a failed call gives `error` alone.
pub(in crate::execute) fn output(mut members: Json) -> Json {
    members["error"] = json!({
        "type": "object",
        "description": "Why it failed.",
        "properties": {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "line": {"type": "integer"},
            "col": {"type": "integer"},
            "hint": {"type": "string"},
            "fix": {"type": "string", "description": "The corrected program."},
            "retryable": {"type": "boolean"},
        },
        "required": ["code", "message", "hint", "retryable"],
    });
    json!({"type": "object", "properties": members})
}

fn session() -> Json {
    json!({"type": "string", "description": "The handle that plasm_context returned: l_…"})
}

fn program() -> Json {
    json!({"type": "string", "description": "Statements, one a line; the last is what comes back."})
}

/// The page that hosts show beside a tool's results, under both its keys: the second one is of older hosts.
fn page(page: Page, visibility: &[&str]) -> Json {
    json!({"ui": {"resourceUri": page.uri, "visibility": visibility}, "ui/resourceUri": page.uri})
}

/// Which rows of a stored result.
fn stored(mut members: Json) -> Json {
    members["logical_session_ref"] = session();
    members["artifact_uri"] = json!({"type": "string", "description": "Of a result: plasm://…"});
    members["run_id"] =
        json!({"type": "string", "description": "Of a result, in place of its artifact_uri."});
    members["offset"] = json!({"type": "integer", "minimum": 0, "default": 0});
    members["limit"] = json!({"type": "integer", "minimum": 1, "maximum": MOST_ROWS});
    json!({
        "type": "object",
        "properties": members,
        "required": ["logical_session_ref"],
        "additionalProperties": false,
    })
}

fn columns() -> Json {
    json!({"type": "array", "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
        "required": ["name", "type"],
    }})
}

/// Rows of a stored result.
fn rows() -> Json {
    output(json!({
        "run_id": {"type": "string"},
        "artifact_uri": {"type": "string"},
        "label": {"type": "string"},
        "columns": columns(),
        "rows": {"type": "array", "items": {"type": "array"}},
        "offset": {"type": "integer"},
        "total": {"type": "integer"},
        "next_offset": {"type": ["integer", "null"], "description": "Where the next page begins; null: this is the last."},
        "coverage": {"enum": ["complete", "partial", "unknown"]},
    }))
}

/// The results of a run.
fn ran() -> Json {
    json!({
        "run_id": {"type": "string"},
        "roots": {"type": "array", "items": {
            "type": "object",
            "properties": {
                "label": {"type": "string"},
                "rows": {"type": "integer", "description": "How many rows there are; values holds those that are shown."},
                "run_id": {"type": "string"},
                "artifact_uri": {"type": "string", "description": "Where all of it is stored."},
                "not_stored": {"type": "object", "description": "Why it is not stored."},
                "lossy_fields": {"type": "array", "items": {"type": "string"}},
                "columns": columns(),
                "values": {"type": "array", "items": {"type": "array"}},
                "text": {"type": "string"},
                "coverage": {"enum": ["complete", "partial", "unknown"]},
                "next_run_ref": {"type": "string"},
            },
            "required": ["label", "rows", "coverage", "run_id"],
        }},
        "requests": {"type": "integer"},
        "writes": {"type": "array", "items": {"type": "object"}},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "continue_run_ref": {"type": "string"},
    })
}

fn planned() -> Json {
    let mut members = ran();
    let plan = json!({
        "run_ref": {"type": "string"},
        "verdict": {"enum": ["ok", "review", "blocked"]},
        "effects": {"type": "array", "items": {"type": "object"}},
        "bounds": {"type": "object", "properties": {
            "requests": {"type": "integer"}, "rows": {"type": "integer"},
        }},
        // Labels of a plan; of a program that was run at once, its results.
        "roots": {"type": "array"},
    });
    for (key, schema) in plan.as_object().into_iter().flatten() {
        members[key] = schema.clone();
    }
    members
}

pub(super) fn definitions() -> Vec<Json> {
    vec![
        json!({
            "name": DISCOVER,
            "title": "Find entities",
            "description": "Finds the entities that fit what is to be done, over all APIs. Returns api, entity and description, best first; seed plasm_context with them.",
            "inputSchema": {
                "type": "object",
                "properties": {"query": {
                    "description": "What is to be done: a sentence, or a list of them.",
                    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
                }},
                "required": ["query"],
                "additionalProperties": false,
            },
            "outputSchema": output(json!({
                "entities": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "api": {"type": "string"}, "entity": {"type": "string"}, "description": {"type": "string"},
                    },
                    "required": ["api", "entity", "description"],
                }},
                "ambiguous": {"type": "object", "description": "Names that stand in several catalogs, with these."},
            })),
            "annotations": annotations("Find entities", true, false, true, false),
        }),
        json!({
            "name": CONTEXT,
            "title": "Open a session over entities",
            "description": "Opens a session over the entities that a task needs, or adds more to one, and teaches what programs over them may say. The first line of the answer is the session's handle.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "intent": {"type": "string", "description": "What the session is for; the same intent leads to the same session."},
                    "seeds": {"type": "array", "minItems": 1, "items": {
                        "type": "object",
                        "properties": {"api": {"type": "string"}, "entity": {"type": "string"}},
                        "required": ["api", "entity"],
                        "additionalProperties": false,
                    }},
                    "logical_session_ref": session(),
                    "fresh": {"type": "boolean", "description": "A new session, whatever there is."},
                },
                "required": ["intent", "seeds"],
                "additionalProperties": false,
            },
            "outputSchema": output(json!({
                "logical_session_ref": {"type": "string"},
                "revision": {"type": "integer"},
                "new_symbol_space": {"type": "boolean", "description": "All symbols of earlier answers are void."},
                "symbols_added": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"symbol": {"type": "string"}, "name": {"type": "string"}},
                    "required": ["symbol", "name"],
                }},
            })),
            "annotations": annotations("Open a session over entities", false, false, true, false),
        }),
        json!({
            "name": PLAN,
            "title": "Plan a program",
            "description": "Checks a program and shows what it would do, without asking any source: reads, writes, bounds and a verdict, and the run_ref to run it by. With mode auto, a program that only reads is run at once.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "logical_session_ref": session(),
                    "program": program(),
                    "mode": {"enum": ["plan", "auto"], "default": "plan"},
                    "reasoning": {"type": "string", "description": "Why, for people who read along."},
                },
                "required": ["logical_session_ref", "program"],
                "additionalProperties": false,
            },
            "outputSchema": output(planned()),
            "annotations": annotations("Plan a program", true, false, true, true),
            "_meta": page(PLAN_REVIEW, &["model", "app"]),
        }),
        json!({
            "name": RUN,
            "title": "Run a plan",
            "description": "Runs a plan by its run_ref, once if it writes; goes on with a result by its next_run_ref; or runs a program that only reads.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "logical_session_ref": session(),
                    "run_ref": {"type": "string", "description": "Of a plan, or of a result that has more."},
                    "program": program(),
                },
                "required": ["logical_session_ref"],
                "additionalProperties": false,
            },
            "outputSchema": output(ran()),
            "annotations": annotations("Run a plan", false, true, true, true),
            "_meta": page(RUN_EXPLORER, &["model", "app"]),
        }),
        json!({
            "name": READ,
            "title": "Read a stored result",
            "description": "Rows of a result that was too large to show, by its artifact_uri or run_id: with the columns that you need, page by page.",
            "inputSchema": stored(json!({
                "columns": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "These alone, in this order."},
            })),
            "outputSchema": rows(),
            "annotations": annotations("Read a stored result", true, false, true, false),
        }),
        json!({
            "name": PAGE,
            "title": "Page a stored result",
            "description": "Rows for the run explorer.",
            "inputSchema": stored(json!({})),
            "outputSchema": rows(),
            "annotations": annotations("Page a stored result", true, false, true, false),
            "_meta": {"ui": {"visibility": ["app"]}},
        }),
    ]
}
