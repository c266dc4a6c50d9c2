//! Reads: queries and searches page by page until there are enough rows, one row by its key, and identities without a
//! read.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value as Json};

use super::{
    Covered, Position, ROWS_AT_ONCE, Ran, Stop,
    asks::Missing,
    conditions::{self, Test},
    engine::Engine,
    fetch::Fetch,
    raw::{Form, wired},
    table::{Of, Rows, Table, View, identity},
    values::{Inputs, broken, named, value},
};
use crate::execute::{
    catalog::{Coverage, Operation, Pages},
    fault::Fault,
    plan::{MOST_PAGES, MOST_ROWS, Node, Op},
    sources::{Ask, PageRef, SourceErrorKind},
};

/// A read of many rows, page by page.
pub(super) struct Reading<'e> {
    engine: &'e Engine,
    node: &'e Node,
    pub of: Of,
    operation: &'e Operation,
    pub form: Form,
    test: Test,
    fetch: Option<Fetch<'e>>,
    /// Conditions look at what is fetched.
    fetch_first: bool,
    /// The pages that are left to ask for.
    pages: AtomicU64,
}

/// What a read brought.
pub(super) struct Brought {
    pub rows: Rows,
    /// Where more of it may be.
    pub next: Option<Position>,
    pub late: bool,
}

impl<'e> Reading<'e> {
    pub fn new(
        engine: &'e Engine,
        node: &'e Node,
        of: &'e Of,
        inputs: &Inputs,
        asked: u64,
    ) -> Ran<Reading<'e>> {
        let operation = engine.operation(node, of)?;
        let comes =
            |name: &str| operation.returns(name) || node.fetched.iter().any(|fetched| fetched == name);
        let form = Form::new(of.clone(), &comes, &engine.relations, None);
        let columns = Table::of(form.empty());
        let test = conditions::tests(&node.residual, inputs, &|path| columns.find(path))?;
        let fetch = Fetch::of(engine, node, of)?;
        let fetch_first = fetch.is_some() && test.looks_at(&node.fetched);
        let pages = AtomicU64::new(MOST_PAGES.max(asked));
        Ok(Reading { engine, node, of: of.clone(), operation, form, test, fetch, fetch_first, pages })
    }

    /// The most rows that are wanted.
    pub fn most(&self) -> usize {
        let most = self.node.limit.map_or(MOST_ROWS, |limit| limit.min(MOST_ROWS));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// What is asked, page aside. `row`: the row that a bound query is for; `None` in the result: it leads nowhere.
    pub fn ask(&self, inputs: &Inputs, row: Option<(&Table, u32)>) -> Ran<Option<Ask>> {
        let mut args = Map::new();
        for pushed in &self.node.pushed {
            let name = pushed["arg"].as_str().unwrap_or_default();
            let Some(arg) = self.operation.args.get(name) else {
                return Err(broken("an argument is none of its operation").into());
            };
            let value = wired(value(&pushed["value"], inputs, row)?, &self.of, &arg.holds);
            if value.is_null() && row.is_some() {
                return Ok(None);
            }
            args.insert(name.to_owned(), value);
        }
        let text = match self.node.op {
            Op::Search => value(&self.node.args["text"], inputs, None)?.as_str().map(str::to_owned),
            _ => None,
        };
        // A page need not have more rows than are wanted, if all of its rows are.
        let size = self.operation.pages.size();
        let few = self
            .node
            .limit
            .filter(|limit| self.node.residual.is_empty() && size.is_some_and(|size| *limit < size));
        Ok(Some(Ask {
            args,
            text,
            page_size: self.node.page_size.or(few).filter(|_| self.operation.pages != Pages::None),
            ..self.engine.ask(&self.of, self.node.operation.as_deref().unwrap_or_default())
        }))
    }

    /// Reads until it has `most` rows, the source has no more, or there is no time.
    pub async fn read(&self, ask: Ask, from: Position, most: usize) -> Ran<Brought> {
        let mut rows = self.form.empty();
        // A part of the key that rows do not say is what they were asked for within.
        let within = within(&self.of, &ask.args);
        // Where each row lay.
        let mut places: Vec<(Option<PageRef>, usize)> = Vec::new();
        let (mut page, mut skip) = (from.page, usize::try_from(from.skip).unwrap_or(usize::MAX));
        let mut next = None;
        let (mut late, mut gone, mut asked) = (false, 0, 0);
        'pages: loop {
            let here = |skip: usize| Position { page: page.clone(), skip: skip as u64 };
            if self
                .pages
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_err()
            {
                self.engine
                    .warn(self.node, format!("it stopped after {MOST_PAGES} pages: there may be more rows"));
                next = Some(here(skip));
                break;
            }
            let got = match self.engine.asks.page(Ask { page: page.clone(), ..ask.clone() }).await {
                Ok(got) => got,
                Err(Missing::Late) if asked > 0 => {
                    (late, next) = (true, Some(here(skip)));
                    break;
                }
                Err(missing) => return Err(missing.into()),
            };
            asked += 1;
            got.warnings.into_iter().for_each(|warning| self.engine.warn(self.node, warning));
            let at_once = if self.fetch_first { ROWS_AT_ONCE } else { usize::MAX };
            while skip < got.rows.len() {
                let end = got.rows.len().min(skip.saturating_add(at_once));
                let mut some = self.form.empty();
                let sizes: Vec<usize> = got.rows[skip..end]
                    .iter()
                    .map(|raw| self.form.read(raw, Some(&within), &mut some))
                    .collect();
                if let Some(fetch) = self.fetch.as_ref().filter(|_| self.fetch_first)
                    && fetch.fill(&mut some, &mut gone).await?.is_some()
                {
                    (late, next) = (true, Some(here(skip)));
                    break 'pages;
                }
                let mut kept: Vec<bool> = (0..some.len).map(|row| self.holds(&some, row)).collect();
                for (index, keep) in kept.iter_mut().enumerate().filter(|(_, keep)| **keep) {
                    if places.len() == most {
                        // One row more than are wanted: there it goes on.
                        next = next.or_else(|| Some(here(skip + index)));
                        *keep = false;
                        continue;
                    }
                    places.push((page.clone(), skip + index));
                    self.engine.asks.held(sizes[index])?;
                }
                some.keep(&kept);
                rows.append(some);
                skip = end;
                if places.len() == most && next.is_none() && end < got.rows.len() {
                    next = Some(here(end));
                }
                if next.is_some() {
                    break 'pages;
                }
            }
            let Some(after) = got.next else { break };
            // A source that leads back to the same page would never end.
            if page.as_ref() == Some(&after) {
                self.engine.warn(
                    self.node,
                    "its source leads back to the same page: there may be more rows".to_owned(),
                );
                next = Some(Position { page: Some(after), skip: 0 });
                break;
            }
            (page, skip) = (Some(after), 0);
            if places.len() >= most {
                next = Some(Position { page, skip: 0 });
                break;
            }
        }
        if let Some(fetch) = self.fetch.as_ref().filter(|_| !self.fetch_first)
            && let Some(had) = fetch.fill(&mut rows, &mut gone).await?
        {
            if had == 0 {
                return Err(Stop::Late);
            }
            let (page, skip) = places.swap_remove(had);
            rows.cut(had);
            (late, next) = (true, Some(Position { page, skip: skip as u64 }));
        }
        self.engine.warn_gone(self.node, gone);
        Ok(Brought { rows, next, late })
    }

    fn holds(&self, rows: &Rows, row: usize) -> bool {
        self.test.holds(&|view: &View| super::table::within(rows.cell(view.column, row), &view.path))
    }

    /// Whether its rows are all there are, when its pages are at their end.
    pub fn covered(&self, more: bool) -> Covered {
        match self.operation.coverage() {
            _ if more => Covered::Partial,
            Coverage::Exhaustive => Covered::Complete,
            Coverage::Partial => Covered::Partial,
            Coverage::Unknown => Covered::Unknown,
        }
    }

    pub fn table(&self, brought: Brought) -> Table {
        if brought.next.is_some() && self.node.limit.is_none_or(|limit| limit > MOST_ROWS) && !brought.late {
            let message = format!("it stopped at {} rows, and there may be more", brought.rows.len);
            self.engine.warn(self.node, message);
        }
        let mut table = Table::of(brought.rows);
        table.covered = self.covered(brought.next.is_some());
        table.lacking = table.covered == Covered::Partial;
        table.late = brought.late;
        table.next = brought.next.map(|place| (self.node.id, place));
        table
    }
}

impl Engine {
    /// A query or a search.
    pub(super) async fn query(&self, node: &Node, inputs: &Inputs) -> Ran<Table> {
        let of = self.of(node)?;
        let reading = Reading::new(self, node, &of, inputs, 1)?;
        let Some(ask) = reading.ask(inputs, None)? else {
            return Err(broken("a query has no arguments").into());
        };
        let brought = reading.read(ask, self.begins(node), reading.most()).await?;
        Ok(reading.table(brought))
    }

    /// One row by its key, which must be there.
    pub(super) async fn get(&self, node: &Node, inputs: &Inputs) -> Ran<Table> {
        let of = self.of(node)?;
        let operation = self.operation(node, &of)?;
        let key = self.key(node, inputs)?;
        let form = Form::new(of.clone(), &|name| operation.returns(name), &self.relations, None);
        let ask =
            Ask { key: wired_key(&of, &key), ..self.ask(&of, node.operation.as_deref().unwrap_or_default()) };
        let missing = || {
            let shown = shown_key(&key);
            Fault::new(
                "not_found",
                format!("there is no {}{shown}", of.entity),
                "check the key, or look for it with a filter",
            )
        };
        let page = match self.asks.get(ask).await {
            Ok(page) => page,
            Err(Missing::Failed(error)) if error.kind == SourceErrorKind::NotFound => {
                return Err(missing().into());
            }
            Err(missing) => return Err(missing.into()),
        };
        page.warnings.iter().for_each(|warning| self.warn(node, warning.clone()));
        let Some(raw) = page.rows.first().filter(|raw| !raw.is_null()) else { return Err(missing().into()) };
        let mut rows = form.empty();
        self.asks.held(form.read(raw, Some(&key), &mut rows))?;
        Ok(Table::of(rows))
    }

    /// A key of which nothing is read, unless fields of it are wanted.
    pub(super) async fn identity(&self, node: &Node, inputs: &Inputs) -> Ran<Table> {
        let of = self.of(node)?;
        let comes = |name: &str| node.fetched.iter().any(|fetched| fetched == name);
        let form = Form::new(of.clone(), &comes, &self.relations, None);
        let mut rows = form.empty();
        form.bare(&self.key(node, inputs)?, &mut rows);
        self.filled(node, &of, rows).await.map(Table::of)
    }

    /// Rows with what has to be fetched of them.
    pub(super) async fn filled(&self, node: &Node, of: &Of, mut rows: Rows) -> Ran<Rows> {
        let mut gone = 0;
        if let Some(fetch) = Fetch::of(self, node, of)?
            && fetch.fill(&mut rows, &mut gone).await?.is_some()
        {
            return Err(Stop::Late);
        }
        self.warn_gone(node, gone);
        Ok(rows)
    }

    fn key(&self, node: &Node, inputs: &Inputs) -> Ran<Map<String, Json>> {
        let Json::Object(key) = &node.args["key"] else { return Err(broken("a step has no key").into()) };
        named(key, inputs, None)
    }
}

/// A key with its parts as they are written upstream.
pub(super) fn wired_key(of: &Of, key: &Map<String, Json>) -> Map<String, Json> {
    let fields = of.entity().map(|entity| &entity.fields);
    let part = |(name, part): (&String, &Json)| {
        let field = fields.and_then(|fields| fields.get(name));
        let part = field.map_or_else(|| part.clone(), |field| wired(part.clone(), of, &field.holds));
        (name.clone(), part)
    };
    key.iter().map(part).collect()
}

/// The parts of the key that a call gives as arguments of their names.
pub(super) fn within(of: &Of, args: &Map<String, Json>) -> Map<String, Json> {
    let part = |name: &String| {
        Some((name.clone(), args.get(name).filter(|part| !part.is_null() && !part.is_array())?.clone()))
    };
    of.key().iter().filter_map(part).collect()
}

fn shown_key(key: &Map<String, Json>) -> String {
    match identity(key.clone()) {
        Json::Null => String::new(),
        key => format!(" with the key {key}"),
    }
}
