//! Corrected programs: the edits that an error derives are made, and what comes of it is checked again, until it is accepted
//! or nothing more is derived.

use super::error::{Edit, ProgramError};

/// Most errors that are corrected one after the other.
const MOST: usize = 16;

/// Makes the edits, which must not overlap. `None`: they do, or leave the source's characters.
fn apply(source: &str, edits: &[Edit]) -> Option<String> {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    // Of two at one place the insertion comes first, and insertions keep their order.
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let (mut text, mut at) = (String::with_capacity(source.len() + 32), 0);
    for edit in edits {
        text.push_str(source.get(at..edit.span.start)?);
        text.push_str(&edit.text);
        at = edit.span.end;
    }
    text.push_str(source.get(at..)?);
    Some(text)
}

/// Gives the error its correction, if `check` accepts what the edits lead to.
pub(super) fn correct(
    source: &str,
    mut error: Box<ProgramError>,
    check: impl Fn(&str) -> Result<(), Box<ProgramError>>,
) -> Box<ProgramError> {
    let (mut text, mut edits) = (source.to_owned(), std::mem::take(&mut error.edits));
    for _ in 0..MOST {
        let next = match apply(&text, &edits) {
            Some(next) if !edits.is_empty() && next != text => next,
            _ => break,
        };
        match check(&next) {
            Ok(()) => {
                error.fix = Some(next);
                break;
            }
            Err(another) => {
                edits = another.edits.clone();
                text = next;
            }
        }
    }
    error
}
