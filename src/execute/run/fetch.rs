//! Fields that do not come with the rows: fetched by `get`, one request a row, several at once.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::Value as Json;

use super::{
    ROWS_AT_ONCE, Ran, Stop,
    asks::{Asks, Missing},
    engine::Engine,
    raw::Form,
    reads::wired_key,
    table::{Of, Rows},
};
use crate::{
    execute::{
        catalog::Kind,
        plan::Node,
        sources::{Ask, Page, SourceErrorKind},
    },
    mcp::Caller,
};

/// What of rows is fetched, and how.
pub(super) struct Fetch<'e> {
    asks: &'e Asks,
    caller: Arc<Caller>,
    of: Of,
    operation: Arc<str>,
    form: Form,
}

impl<'e> Fetch<'e> {
    /// `None`: the step has nothing to fetch.
    pub fn of(engine: &'e Engine, node: &Node, of: &Of) -> Ran<Option<Fetch<'e>>> {
        if node.fetched.is_empty() {
            return Ok(None);
        }
        let Some((operation, _)) = of.catalog.operation(&of.entity, Kind::Get) else {
            return Err(super::values::broken("nothing fetches the fields of an entity").into());
        };
        let comes = |name: &str| node.fetched.iter().any(|fetched| fetched == name);
        let form = Form::new(of.clone(), &comes, &engine.relations, None);
        Ok(Some(Fetch {
            asks: &engine.asks,
            caller: Arc::clone(&engine.caller),
            of: of.clone(),
            operation: operation.into(),
            form,
        }))
    }

    /// Fills in what is fetched, row by row. `Some`: there was time for so many of the first rows alone. A row that is not
    /// there any more keeps nulls; how many those are is added to `gone`.
    pub async fn fill(&self, rows: &mut Rows, gone: &mut usize) -> Ran<Option<usize>> {
        let asked = stream::iter((0..rows.len).map(|row| self.one(rows, row)).collect::<Vec<_>>());
        let mut asked = asked.buffered(ROWS_AT_ONCE);
        let mut answers = Vec::with_capacity(rows.len);
        let mut late = None;
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(page) => answers.push(page),
                Err(Missing::Late) => {
                    late = Some(answers.len());
                    break;
                }
                Err(Missing::Failed(error)) if error.kind == SourceErrorKind::NotFound => {
                    answers.push(None);
                    *gone += 1;
                }
                Err(missing) => return Err(missing.into()),
            }
        }
        drop(asked);
        for (row, page) in answers.into_iter().enumerate() {
            if let Some(raw) = page.as_ref().and_then(|page| page.rows.first()) {
                self.put(raw, rows, row)?;
            }
        }
        Ok(late)
    }

    fn one(
        &self,
        rows: &Rows,
        row: usize,
    ) -> impl Future<Output = Result<Option<Arc<Page>>, Missing>> + use<'e> {
        let ask = Ask {
            catalog: Arc::clone(&self.of.catalog),
            operation: Arc::clone(&self.operation),
            key: wired_key(&self.of, &rows.key(row)),
            args: Default::default(),
            text: None,
            page: None,
            page_size: None,
            idempotency_key: None,
            caller: Arc::clone(&self.caller),
        };
        let asks = self.asks;
        async move {
            // Without a whole key there is nothing to ask for.
            if ask.key.values().any(Json::is_null) {
                return Ok(None);
            }
            asks.get(ask).await.map(Some)
        }
    }

    fn put(&self, raw: &Json, rows: &mut Rows, row: usize) -> Ran<()> {
        let mut one = self.form.empty();
        let bytes = self.form.read(raw, None, &mut one);
        self.asks.held(bytes).map_err(Stop::Failed)?;
        let key = self.of.key();
        for mut column in one.columns.into_iter().filter(|column| !key.contains(&column.name)) {
            let to = rows.columns.iter_mut().find(|to| to.name == column.name);
            if let (Some(to), Some(cell)) = (to, column.cells.pop()) {
                to.cells[row] = cell;
            }
        }
        for (name, mut cells) in one.within {
            let to = rows.within.iter_mut().find(|(to, _)| *to == name);
            if let (Some((_, to)), Some(cell)) = (to, cells.pop()) {
                to[row] = cell;
            }
        }
        rows.lossy.append(&mut one.lossy);
        Ok(())
    }
}
