//! From the tree back to text, in the one way a program is written: what it prints parses to the same tree.

use serde_json::Value as Json;

use super::ast::*;

/// The program, one statement a line.
pub fn print(program: &Program) -> String {
    let mut printer = Printer { text: String::new(), closed: false };
    for statement in &program.statements {
        match statement {
            Statement::Bind { label, rhs } => {
                printer.push(&label.text);
                printer.push(" = ");
                printer.rhs(rhs);
            }
            Statement::Roots(roots) => printer.list(roots, ", ", Printer::rhs),
        }
        printer.push("\n");
    }
    printer.text
}

/// What may follow the closing tag of a heredoc on its line.
const AFTER_TAG: [char; 7] = [')', ']', '}', ',', '|', '[', '\n'];

struct Printer {
    text: String,
    /// Whether the closing tag of a heredoc was printed last.
    closed: bool,
}

impl Printer {
    fn push(&mut self, text: &str) {
        if std::mem::take(&mut self.closed) && !text.starts_with(AFTER_TAG) {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    fn list<T>(&mut self, items: &[T], between: &str, mut print: impl FnMut(&mut Self, &T)) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(between);
            }
            print(self, item);
        }
    }

    fn rhs(&mut self, rhs: &Rhs) {
        self.head(&rhs.flow.head);
        for step in &rhs.flow.steps {
            self.step(&step.kind);
        }
        let Some(effect) = &rhs.effect else { return };
        self.gap();
        self.push("=> ");
        match &effect.target {
            Target::Cursor => self.push("_"),
            Target::Named(named) => self.named(named),
        }
        self.push(".");
        self.push(&effect.name.text);
        effect.args.iter().for_each(|args| self.args(args));
    }

    /// A space, unless a heredoc was closed before.
    fn gap(&mut self) {
        if !self.closed {
            self.push(" ");
        }
    }

    fn head(&mut self, head: &Head) {
        match head {
            Head::Named(named) => self.named(named),
            Head::Text(text) => self.words(text),
        }
    }

    fn named(&mut self, named: &Named) {
        if let Some(api) = &named.api {
            self.push(&api.text);
            self.push("::");
        }
        self.push(&named.name.text);
        named.args.iter().for_each(|args| self.args(args));
    }

    fn args(&mut self, args: &Args) {
        self.push("(");
        self.list(&args.items, ", ", |it, arg| {
            if let Some(name) = &arg.name {
                it.push(&name.text);
                it.push(" = ");
            }
            it.value(&arg.value);
        });
        self.push(")");
    }

    fn step(&mut self, step: &StepKind) {
        match step {
            StepKind::Hop(name) => {
                self.push(".");
                self.push(&name.text);
            }
            StepKind::Call { name, args } => {
                self.push(".");
                self.push(&name.text);
                self.args(args);
            }
            StepKind::Stage(stage) => {
                self.gap();
                self.push("| ");
                self.stage(stage);
            }
            StepKind::Columns(columns) => {
                self.push("[");
                self.list(columns, ", ", |it, column| {
                    it.path(&column.path);
                    if let Some(label) = &column.label {
                        it.push(" as ");
                        it.push(&label.text);
                    }
                });
                self.push("]");
            }
        }
    }

    fn stage(&mut self, stage: &Stage) {
        let name = match stage {
            Stage::Filter(_) => "filter",
            Stage::Search(_) => "search",
            Stage::Sort(_) => "sort",
            Stage::Limit(_) => "limit",
            Stage::PageSize(_) => "page_size",
            Stage::Distinct(_) => "distinct",
            Stage::Singleton => "singleton",
            Stage::GroupBy(_) => "group_by",
            Stage::Aggregate(_) => "aggregate",
            Stage::Render(_) => "render",
            Stage::Other { name, .. } => &name.text,
        };
        self.push(name);
        if let Stage::Render(text) = stage {
            self.push(" ");
            return self.words(text);
        }
        self.push("(");
        match stage {
            Stage::Filter(all) => self.list(all, ", ", |it, one| it.predicate(one, 0)),
            Stage::Search(value) | Stage::Limit(value) | Stage::PageSize(value) => self.value(value),
            Stage::Sort(orders) => self.list(orders, ", ", |it, order| {
                it.path(&order.path);
                if order.desc {
                    it.push(" desc");
                }
            }),
            Stage::Distinct(paths) => self.list(paths, ", ", Self::path),
            Stage::GroupBy(groups) => self.list(groups, ", ", |it, group| match group {
                Group::By(path) => it.path(path),
                Group::Aggregate(aggregate) => it.aggregate(aggregate),
            }),
            Stage::Aggregate(aggregates) => self.list(aggregates, ", ", Self::aggregate),
            Stage::Singleton | Stage::Render(_) | Stage::Other { .. } => {}
        }
        self.push(")");
    }

    fn aggregate(&mut self, aggregate: &Aggregate) {
        self.push(&aggregate.name.text);
        self.push(" = ");
        self.push(aggregate.function.name());
        self.push("(");
        aggregate.path.iter().for_each(|path| self.path(path));
        self.push(")");
    }

    fn path(&mut self, path: &Path) {
        self.push(&path.text());
    }

    /// `binds`: how close what stands around it binds: 0 nothing, 1 `or`, 2 `and`, 3 `not`.
    fn predicate(&mut self, predicate: &Predicate, binds: u8) {
        let own = match predicate {
            Predicate::Or(_) => 1,
            Predicate::And(_) => 2,
            Predicate::Not(_) => 3,
            Predicate::Compare { .. } | Predicate::Null { .. } => 4,
        };
        let wrapped = own <= binds;
        if wrapped {
            self.push("(");
        }
        match predicate {
            Predicate::Or(any) => self.list(any, " or ", |it, one| it.predicate(one, 1)),
            Predicate::And(all) => self.list(all, " and ", |it, one| it.predicate(one, 2)),
            Predicate::Not(inside) => {
                self.push("not ");
                self.predicate(inside, 3);
            }
            Predicate::Compare { path, op, value } => {
                self.path(path);
                self.push(" ");
                self.push(op.op.text());
                self.push(" ");
                self.value(value);
            }
            Predicate::Null { path, negated } => {
                self.path(path);
                self.push(if *negated { " is not null" } else { " is null" });
            }
        }
        if wrapped {
            self.push(")");
        }
    }

    fn words(&mut self, text: &Text) {
        let Some(tag) = &text.tag else { return self.string(&text.text) };
        let lines: &str = &text.text;
        self.push("<<");
        self.push(tag);
        self.push("\n");
        if !lines.is_empty() {
            self.push(lines);
            self.push("\n");
        }
        self.push(tag);
        self.closed = true;
    }

    fn string(&mut self, text: &str) {
        self.push(&Json::from(text).to_string());
    }

    fn value(&mut self, value: &Value) {
        match &value.kind {
            ValueKind::Null => self.push("null"),
            ValueKind::Bool(value) => self.push(if *value { "true" } else { "false" }),
            ValueKind::Number(number) => self.push(&number.to_string()),
            ValueKind::Text(text) => self.words(text),
            ValueKind::List(items) => {
                self.push("[");
                self.list(items, ", ", Self::value);
                self.push("]");
            }
            ValueKind::Object(entries) => {
                self.push("{");
                self.list(entries, ", ", |it, (key, value)| {
                    it.string(&key.text);
                    it.push(": ");
                    it.value(value);
                });
                self.push("}");
            }
            ValueKind::Path(path) => self.path(path),
            ValueKind::Cursor(parts) => {
                self.push("_");
                for part in parts {
                    self.push(".");
                    self.push(&part.text);
                }
            }
            ValueKind::Entity(named) => self.named(named),
            ValueKind::Now => self.push("now()"),
            ValueKind::Ago(text) => {
                self.push("ago(");
                self.words(text);
                self.push(")");
            }
        }
    }
}
