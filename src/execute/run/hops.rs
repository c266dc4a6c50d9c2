//! Along relations: rows that stand in the row, rows that a query bound to the row finds, and the row that a reference names.

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value as Json};

use super::{
    Covered, Position, ROWS_AT_ONCE, Ran, Stop,
    engine::Engine,
    raw::Form,
    reads::{Brought, Reading},
    table::{Of, Table},
    values::{Inputs, broken},
};
use crate::execute::{
    catalog::{Embed, Kind},
    plan::{MOST_ROWS, Node},
};

impl Engine {
    pub(super) async fn hop(&self, node: &Node, inputs: &Inputs) -> Ran<Table> {
        let from = inputs.table()?.whole();
        if from.late {
            return Err(Stop::Late);
        }
        let of = self.of(node)?;
        let name = node.args["relation"].as_str().unwrap_or_default();
        let of_rows = from.rows.of.as_ref().and_then(Of::entity);
        let Some(relation) = of_rows.and_then(|entity| entity.relations.get(name)).cloned() else {
            return Err(broken("a relation is not in its catalog").into());
        };
        let mut table = if let Some(embed) = &relation.embed {
            self.embedded(node, &of, &from, name, embed).await?
        } else if let Some(field) = &relation.by_ref {
            self.referred(node, &of, &from, field).await?
        } else {
            self.bound(node, &of, &from, inputs).await?
        };
        // What is missing of the rows before is missing here.
        table.covered = table.covered.max(from.covered);
        table.lacking |= from.lacking;
        Ok(table)
    }

    fn most(&self, node: &Node) -> usize {
        let most = node.limit.map_or(MOST_ROWS, |limit| limit.min(MOST_ROWS));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    async fn embedded(&self, node: &Node, of: &Of, from: &Table, name: &str, embed: &Embed) -> Ran<Table> {
        let gets = of.catalog.operation(&of.entity, Kind::Get).is_some();
        let comes = |name: &str| !gets || node.fetched.iter().any(|fetched| fetched == name);
        let form = Form::new(of.clone(), &comes, &self.relations, Some(embed));
        let Some((_, within)) = from.rows.within.iter().find(|(relation, _)| relation == name) else {
            return Err(broken("embedded rows did not come with their row").into());
        };
        let (mut rows, most) = (form.empty(), self.most(node));
        let all = from.order.iter().filter_map(|row| within.get(*row as usize)?.as_array()).flatten();
        let mut all = all.filter(|raw| !raw.is_null());
        for raw in all.by_ref().take(most) {
            self.asks.held(form.read(raw, None, &mut rows))?;
        }
        let more = all.next().is_some();
        self.whole_of(node, of, rows, more).await
    }

    async fn referred(&self, node: &Node, of: &Of, from: &Table, field: &str) -> Ran<Table> {
        let comes = |name: &str| node.fetched.iter().any(|fetched| fetched == name);
        let form = Form::new(of.clone(), &comes, &self.relations, None);
        let Some(column) = from.rows.column(field) else {
            return Err(broken("a reference did not come with its row").into());
        };
        let (mut rows, most) = (form.empty(), self.most(node));
        let mut keys = from.order.iter().filter_map(|row| key(of, from.rows.cell(column, *row as usize)));
        for key in keys.by_ref().take(most) {
            self.asks.held(form.bare(&key, &mut rows))?;
        }
        let more = keys.next().is_some();
        self.whole_of(node, of, rows, more).await
    }

    async fn whole_of(&self, node: &Node, of: &Of, rows: super::table::Rows, more: bool) -> Ran<Table> {
        let mut table = Table::of(self.filled(node, of, rows).await?);
        if more {
            table.covered = Covered::Partial;
            table.lacking = true;
        }
        Ok(table)
    }

    /// One query a row, several at once, their rows in the order of the rows they are for.
    async fn bound(&self, node: &Node, of: &Of, from: &Table, inputs: &Inputs) -> Ran<Table> {
        let reading = Reading::new(self, node, of, inputs, from.order.len() as u64)?;
        let most = reading.most();
        let mut asks = Vec::with_capacity(from.order.len());
        for row in &from.order {
            asks.extend(reading.ask(inputs, Some((from, *row)))?);
        }
        if asks.len() == 1 {
            let ask = asks.swap_remove(0);
            let brought = reading.read(ask, self.begins(node), most).await?;
            return Ok(reading.table(brought));
        }
        let (mut rows, mut more, mut left) = (reading.form.empty(), false, asks.len());
        // Where few rows are wanted, few are asked for ahead: the first may have them all.
        let ahead = if most < 25 { 1 } else { ROWS_AT_ONCE };
        let reads =
            asks.into_iter().map(|ask| reading.read(ask, Position::default(), most)).collect::<Vec<_>>();
        let mut reads = stream::iter(reads).buffered(ahead);
        while rows.len < most
            && let Some(brought) = reads.next().await
        {
            let Brought { rows: found, next, late } = brought?;
            if late {
                return Err(Stop::Late);
            }
            left -= 1;
            more |= next.is_some();
            rows.append(found);
        }
        drop(reads);
        more |= left > 0 || rows.len > most;
        rows.cut(most);
        let next = more.then(Position::default);
        let mut table = reading.table(Brought { rows, next, late: false });
        // Of several reads none can be gone on with alone.
        table.next = None;
        Ok(table)
    }
}

/// The parts of the key that an identity is. `None`: it is none.
fn key(of: &Of, identity: &Json) -> Option<Map<String, Json>> {
    match (of.key(), identity) {
        (_, Json::Null) => None,
        ([part], one) => Some([(part.clone(), one.clone())].into_iter().collect()),
        (_, Json::Object(parts)) => Some(parts.clone()),
        _ => None,
    }
}
