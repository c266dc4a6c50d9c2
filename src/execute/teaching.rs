//! The teaching table: what an agent must know to write programs over the entities of a session, and nothing else. A pure
//! function of the scope: the whole table, or what a wave of seeds added. Every expression in it is a program.

use std::fmt::Write as _;

use super::{
    catalog::{Arg, Base, Domain, EffectClass, Holds, Kind, Need, Operation},
    symbols::{EntityId, Ledger, Scope},
};

/// Largest table of one wave, in bytes.
pub const LARGEST: usize = 24 << 10;
/// Longest description that is taught, in characters.
const LONGEST: usize = 120;

/// A table does not fit, even in its shortest form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the table of these seeds has {bytes} bytes, and at most {LARGEST} are taught at once: open the context with fewer seeds"
)]
pub struct TooLarge {
    pub bytes: usize,
}

/// Two columns, expression and meaning, separated by a tab. `before`: what was taught already; with an empty ledger it is the
/// whole table. Descriptions are left out where the table would be too large with them, then the value domains.
pub fn table(scope: &Scope, before: &Ledger) -> Result<String, TooLarge> {
    let mut bytes = 0;
    for detail in [Detail::All, Detail::NoProse, Detail::Least] {
        let text = Teacher { scope, before, detail, rows: String::new(), domains: Vec::new() }.teach();
        if text.len() <= LARGEST {
            return Ok(text);
        }
        bytes = text.len();
    }
    Err(TooLarge { bytes })
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Least,
    NoProse,
    All,
}

struct Teacher<'a> {
    scope: &'a Scope,
    before: &'a Ledger,
    detail: Detail,
    rows: String,
    /// Types that were met, each taught once a catalog.
    domains: Vec<(String, String)>,
}

impl Teacher<'_> {
    fn teach(mut self) -> String {
        for entity in self.scope.ids() {
            let is_new = entity.0 >= self.before.entities.len();
            if is_new {
                self.entity(entity);
            }
            self.relations(entity);
            if is_new {
                self.methods(entity);
                self.projection(entity);
            }
        }
        self.rows
    }

    fn row(&mut self, expression: &str, meaning: &str) {
        let plain = |text: &str| text.replace(['\t', '\n', '\r'], " ");
        let _ = writeln!(self.rows, "{}\t{}", plain(expression), plain(meaning).trim());
    }

    /// A description, shortened.
    fn about(&self, about: Option<&str>) -> String {
        match about {
            Some(about) if self.detail == Detail::All => format!(": {}", shortened(about)),
            _ => String::new(),
        }
    }

    /// What a field or an argument holds, in a word, or in all that it may be.
    fn kind_of(&self, holds: &Holds) -> String {
        match holds {
            Holds::Ref(to) => format!("ref {to}"),
            Holds::Named(name) => name.clone(),
            Holds::Inline(domain) if domain.base == Base::Enum => domain.values.join("|"),
            Holds::Inline(domain) => domain.base.name().to_owned(),
        }
    }

    fn is_free(&self, entity: EntityId, holds: &Holds) -> bool {
        self.scope.catalog(entity).domain(holds).is_some_and(|domain| domain.base == Base::Json)
    }

    /// As [`Teacher::kind_of`], with the form of what has no type of its own: only its description tells it.
    fn kind_of_arg(&self, entity: EntityId, arg: &Arg) -> String {
        match &arg.about {
            Some(about) if self.is_free(entity, &arg.holds) && self.detail > Detail::Least => {
                shortened(about)
            }
            _ => self.kind_of(&arg.holds),
        }
    }

    fn symbol(&self, entity: EntityId) -> String {
        format!("e{}", entity.0 + 1)
    }

    /// `e1("…")`
    fn one(&self, entity: EntityId) -> String {
        let shape = self.scope.catalog(entity).entity(self.scope.name(entity));
        let parts: Vec<String> = shape
            .iter()
            .flat_map(|shape| shape.key.iter().filter_map(|key| Some((key, shape.fields.get(key)?))))
            .map(|(key, field)| format!("{key} = {}", self.example(entity, &field.holds)))
            .collect();
        let symbol = self.symbol(entity);
        match parts.as_slice() {
            [] => symbol,
            [only] => format!("{symbol}({})", only.split_once(" = ").map_or("", |(_, value)| value)),
            many => format!("{symbol}({})", many.join(", ")),
        }
    }

    fn example(&self, entity: EntityId, holds: &Holds) -> String {
        if let Holds::Ref(to) = holds {
            return match self.scope.sibling(entity, to) {
                Some(to) => self.one(to),
                // An entity that was not seeded: its key is taken as well.
                None => "\"…\"".to_owned(),
            };
        }
        let domain = self.scope.catalog(entity).domain(holds).unwrap_or_else(|| Domain::of(Base::Json));
        match domain.base {
            Base::Int | Base::Float => domain.min.map_or("1".to_owned(), |min| min.to_string()),
            Base::Bool => "true".to_owned(),
            Base::Enum => format!("{:?}", domain.values.first().map_or("…", String::as_str)),
            Base::Datetime => "ago(\"30d\")".to_owned(),
            Base::Date => "\"2026-11-30\"".to_owned(),
            Base::Uuid => "\"6f9619ff-8b86-4011-b42d-00cf4fc964ff\"".to_owned(),
            Base::Json => "{}".to_owned(),
            Base::String | Base::Text | Base::Bytes => "\"…\"".to_owned(),
        }
    }

    fn entity(&mut self, entity: EntityId) {
        let (catalog, name) = (self.scope.catalog(entity), self.scope.name(entity));
        let Some(shape) = catalog.entity(name) else { return };
        let api = &self.scope.seed(entity).api;
        // What an operation says as well is said there; of a get nothing else is.
        let told = catalog
            .operations_of(name)
            .any(|(_, operation)| operation.kind != Kind::Get && operation.about == shape.about);
        let about = self.about(shape.about.as_deref().filter(|_| !told));
        let symbol = self.symbol(entity);
        if shape.key.is_empty() {
            self.row(&symbol, &format!("{name} of {api}, of which there is one{about}"));
        } else if catalog.operation(name, Kind::Get).is_some() {
            let by = shape.key.join(", ");
            self.row(&self.one(entity), &format!("one {name} of {api} by {by}{about}"));
        }
        for kind in [Kind::Query, Kind::Search] {
            let operations: Vec<&Operation> =
                catalog.operations_of(name).filter(|(_, one)| one.kind == kind).map(|(_, one)| one).collect();
            for operation in operations {
                self.reads(entity, operation);
            }
        }
    }

    /// A query or a search, with the filters that are carried out upstream.
    fn reads(&mut self, entity: EntityId, operation: &Operation) {
        let (catalog, name) = (self.scope.catalog(entity), self.scope.name(entity));
        let fields = catalog.entity(name).map(|shape| &shape.fields);
        let needed: Vec<String> = operation
            .args
            .iter()
            .filter(|(_, arg)| arg.need != Need::Optional)
            .map(|(arg, of)| format!("{arg} = {}", self.example(entity, &of.holds)))
            .collect();
        let mut expression = self.symbol(entity);
        if operation.kind == Kind::Search {
            expression.push_str(" | search(\"…\")");
        }
        if !needed.is_empty() {
            let _ = write!(expression, " | filter({})", needed.join(", "));
        }
        let about = self.about(operation.about.as_deref());
        let what = if operation.kind == Kind::Search { "by words" } else { "all" };
        let mut meaning = format!("{name} rows, {what}{about}");
        let optional: Vec<String> = operation
            .args
            .iter()
            .filter(|(_, arg)| arg.need == Need::Optional)
            .map(|(arg, of)| {
                let ops: Vec<&str> = of.ops.iter().map(|op| op.text()).collect();
                let is_field = fields.is_some_and(|fields| fields.get(arg).is_some());
                let kind =
                    if is_field { String::new() } else { format!(" {}", self.kind_of_arg(entity, of)) };
                format!("{arg} {}{kind}", ops.join(" "))
            })
            .collect();
        if !optional.is_empty() {
            let _ = write!(meaning, "; filtered upstream: {}", optional.join(", "));
        }
        if !needed.is_empty() {
            meaning.push_str("; the filter shown is needed");
        }
        self.row(&expression, &meaning);
    }

    fn relations(&mut self, entity: EntityId) {
        let (catalog, name) = (self.scope.catalog(entity), self.scope.name(entity));
        let Some(shape) = catalog.entity(name) else { return };
        for (relation, found) in shape.relations.iter() {
            let Some(symbol) = self.scope.relation_symbol(entity, relation) else { continue };
            let number = symbol[1..].parse::<usize>().unwrap_or(0);
            let Some(to) =
                self.scope.sibling(entity, &found.to).filter(|_| number > self.before.relations.len())
            else {
                continue;
            };
            let about = self.about(found.about.as_deref());
            let many = if found.many { "many" } else { "one" };
            let meaning = format!("{relation}: {many} {} ({}){about}", found.to, self.symbol(to));
            self.row(&format!("{}.{symbol}", self.one(entity)), &meaning);
        }
    }

    fn methods(&mut self, entity: EntityId) {
        let (catalog, name) = (self.scope.catalog(entity), self.scope.name(entity));
        let methods: Vec<(String, &Operation)> =
            catalog.methods(name).map(|(method, _, operation)| (method.to_owned(), operation)).collect();
        for (method, operation) in methods {
            let Some(symbol) = self.scope.method_symbol(entity, &method) else { continue };
            let (mut args, mut forms, mut optional) = (Vec::new(), Vec::new(), Vec::new());
            let mut spare = None;
            for (arg, of) in operation.args.iter() {
                let kind = self.kind_of_arg(entity, of);
                let given = format!("{arg} = {}", self.example(entity, &of.holds));
                if of.need == Need::Optional {
                    // Where nothing is needed, the first shows how it is given.
                    spare.get_or_insert(given);
                    optional.push(format!("{arg} {kind}"));
                    continue;
                }
                args.push(given);
                let chosen = matches!(&of.holds, Holds::Inline(domain) if domain.base == Base::Enum);
                if chosen || (of.about.is_some() && self.is_free(entity, &of.holds)) {
                    forms.push(format!("{arg} {kind}"));
                }
            }
            if args.is_empty() {
                args.extend(spare);
            }
            let mut meaning = format!("{method}{}", self.about(operation.about.as_deref()));
            for (word, what) in [("where", forms), ("optional", optional)] {
                if !what.is_empty() {
                    let _ = write!(meaning, "; {word}: {}", what.join(", "));
                }
            }
            meaning.push_str(match operation.effect.as_ref().map(|effect| effect.class) {
                Some(EffectClass::Destructive) => "; destructive",
                Some(EffectClass::Read) => "; changes nothing",
                _ => "; writes",
            });
            let of = if operation.kind == Kind::Create { self.symbol(entity) } else { self.one(entity) };
            self.row(&format!("{of}.{symbol}({})", args.join(", ")), &meaning);
        }
    }

    /// The fields, their kinds, and the domains that need more than a word.
    fn projection(&mut self, entity: EntityId) {
        let (catalog, name) = (self.scope.catalog(entity), self.scope.name(entity));
        let Some(shape) = catalog.entity(name) else { return };
        let (mut kinds, mut met) = (Vec::new(), Vec::new());
        for (field, of) in shape.fields.iter() {
            let optional = if of.nullable { "?" } else { "" };
            kinds.push(format!("{field} {}{optional}", self.kind_of(&of.holds)));
            met.push(of.holds.clone());
        }
        let args = catalog
            .operations_of(name)
            .flat_map(|(_, one)| one.args.iter().map(|(_, arg)| arg.holds.clone()));
        met.extend(args);
        if !kinds.is_empty() {
            let columns: Vec<&str> = shape.fields.keys().collect();
            let expression = format!("{}[{}]", self.rows_of(entity), columns.join(", "));
            self.row(&expression, &format!("columns of {name}: {}", kinds.join(", ")));
        }
        for holds in met {
            self.domain(entity, &holds);
        }
    }

    /// Rows of the entity, as they are asked for: all, or one.
    fn rows_of(&self, entity: EntityId) -> String {
        let (catalog, name) = (self.scope.catalog(entity), self.scope.name(entity));
        let free = |operation: &Operation| operation.args.iter().all(|(_, arg)| arg.need == Need::Optional);
        let mut queries = catalog.operations_of(name).filter(|(_, one)| one.kind == Kind::Query);
        if queries.any(|(_, one)| free(one)) { self.symbol(entity) } else { self.one(entity) }
    }

    /// A named type whose values are not told by its base: taught once.
    fn domain(&mut self, entity: EntityId, holds: &Holds) {
        let Holds::Named(name) = holds else { return };
        let catalog = self.scope.catalog(entity);
        let Some(domain) = catalog.types.get(name) else { return };
        let key = (catalog.id.clone(), name.clone());
        if self.domains.contains(&key) || (self.detail == Detail::Least && domain.base != Base::Enum) {
            return;
        }
        let mut meaning = domain.base.name().to_owned();
        if !domain.values.is_empty() {
            let values: Vec<String> = domain.values.iter().map(|value| format!("{value:?}")).collect();
            let _ = write!(meaning, ": {}", values.join(", "));
        }
        for (word, bound) in [("at least", domain.min), ("at most", domain.max)] {
            if let Some(bound) = bound {
                let _ = write!(meaning, ", {word} {bound}");
            }
        }
        if let Some(most) = domain.max_len {
            let _ = write!(meaning, ", at most {most} characters");
        }
        self.domains.push(key);
        self.row(name, &meaning);
    }
}

/// The beginning of a description, to the end of a word.
fn shortened(about: &str) -> String {
    let about = about.trim_end_matches('.');
    match about.char_indices().nth(LONGEST) {
        None => about.to_owned(),
        Some((end, _)) => {
            let end = about[..end].rfind(' ').unwrap_or(end);
            format!("{}…", about[..end].trim_end_matches(['.', ',', ';', ' ']))
        }
    }
}

#[cfg(test)]
mod tests;
