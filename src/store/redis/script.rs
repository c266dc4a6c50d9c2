//! The four fixed scripts, by their digest and, where a server does not know it yet, by their text. What a commit's script
//! reads is written here.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use fred::types::Value;

use super::line::{self, Line, Trouble};
use super::millis;
use crate::store::{Check, Key, Write};

pub(super) static COMMIT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("commit.lua")));
pub(super) static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("take.lua")));
pub(super) static ADMIT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("admit.lua")));
pub(super) static MAIL: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("mail.lua")));

pub(super) struct Script {
    text: &'static str,
    /// SHA-1 in hexadecimal, which is how Redis names scripts.
    name: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        Script { text, name: sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// Runs it over keys of one slot, of which there is at least one.
    pub(super) async fn run(
        &self,
        line: &Line,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> Result<Value, Trouble> {
        let slot = line::slot(keys.first().map_or("", String::as_str));
        let count = i64::try_from(keys.len()).unwrap_or(i64::MAX);
        let tail: Vec<Value> =
            std::iter::once(count.into()).chain(keys.into_iter().map(Value::from)).chain(args).collect();
        let called = |by: &str| std::iter::once(Value::from(by)).chain(tail.iter().cloned()).collect();
        match line.ask("EVALSHA", slot, called(&self.name)).await {
            Err(Trouble::Said(said)) if said.starts_with("NOSCRIPT") => {
                line.ask("EVAL", slot, called(self.text)).await
            }
            other => other,
        }
    }
}

/// A record's revision, and what its fields' names begin with, so that no name is in the revision's way.
pub(super) const REVISION: &[u8] = b"r";
pub(super) const FIELD: u8 = b':';

/// The keys (each once) and arguments of a commit.
pub(super) fn commit<'a>(
    checks: &'a [(Key, Check)],
    writes: &'a [(Key, Write)],
) -> (Vec<&'a Key>, Vec<Value>) {
    let mut keys: Vec<&Key> = Vec::new();
    let mut index = |key: &'a Key| -> Value {
        let known = keys.iter().position(|known| *known == key);
        let at = known.unwrap_or_else(|| {
            keys.push(key);
            keys.len() - 1
        });
        (at as i64 + 1).into()
    };
    let mut args: Vec<Value> = vec![(checks.len() as i64).into()];
    for (key, check) in checks {
        let at = index(key);
        match check {
            Check::Absent => args.extend(["absent".into(), at]),
            Check::Present => args.extend(["present".into(), at]),
            Check::Rev(rev) => args.extend(["rev".into(), at, rev.to_string().into()]),
            Check::Field(name, Some(value)) => {
                args.extend(["field".into(), at, field(name), value.clone().into()]);
            }
            Check::Field(name, None) => args.extend(["no_field".into(), at, field(name)]),
        }
    }
    for (key, write) in writes {
        let at = index(key);
        match write {
            Write::Set(name, value) => args.extend(["set".into(), at, field(name), value.clone().into()]),
            Write::Unset(name) => args.extend(["unset".into(), at, field(name)]),
            Write::Drop => args.extend(["drop".into(), at]),
            Write::Live(life) if life.is_zero() => args.extend(["drop".into(), at]),
            Write::Live(life) => args.extend(["live".into(), at, millis(*life)]),
            Write::Append { event, keep } => {
                args.extend(["append".into(), at, event.clone().into(), (*keep).max(1).into()]);
            }
        }
    }
    (keys, args)
}

fn field(name: &str) -> Value {
    format!("{}{name}", char::from(FIELD)).into()
}
