//! Along relations: rows that stand in the row, rows that a query bound to the row finds, and the row that a reference names.

use std::collections::HashMap;

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value as Json, json};

use super::{
    Covered, Position, ROWS_AT_ONCE, Ran, Stop,
    engine::Engine,
    raw::Form,
    reads::{Brought, Reading},
    table::{Of, Rows, Table},
    values::{Inputs, broken},
};
use crate::execute::{
    canonical::canonical,
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
        // What borrows by a closure must not live over an await: such a future is not known to be `Send`.
        let more = {
            let all = from.order.iter().filter_map(|row| within.get(*row as usize)?.as_array()).flatten();
            let mut all = all.filter(|raw| !raw.is_null());
            for raw in all.by_ref().take(most) {
                self.asks.held(form.read(raw, None, &mut rows))?;
            }
            all.next().is_some()
        };
        self.whole_of(node, of, rows, more).await
    }

    async fn referred(&self, node: &Node, of: &Of, from: &Table, field: &str) -> Ran<Table> {
        let comes = |name: &str| node.fetched.iter().any(|fetched| fetched == name);
        let form = Form::new(of.clone(), &comes, &self.relations, None);
        let Some(column) = from.rows.column(field) else {
            return Err(broken("a reference did not come with its row").into());
        };
        let (mut rows, most) = (form.empty(), self.most(node));
        let more = {
            let mut keys = from.order.iter().filter_map(|row| key(of, from.rows.cell(column, *row as usize)));
            for key in keys.by_ref().take(most) {
                self.asks.held(form.bare(&key, &mut rows))?;
            }
            keys.next().is_some()
        };
        self.whole_of(node, of, rows, more).await
    }

    async fn whole_of(&self, node: &Node, of: &Of, rows: Rows, more: bool) -> Ran<Table> {
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
        // The same request for several rows is made once.
        let (mut asks, mut known, mut turns) = (Vec::new(), HashMap::new(), Vec::new());
        for row in &from.order {
            if let Some(ask) = reading.ask(inputs, Some((from, *row)))? {
                let place = *known.entry(canonical(&json!(ask.args))).or_insert(asks.len());
                turns.push(place);
                if place == asks.len() {
                    asks.push(ask);
                }
            }
        }
        if turns.len() == 1 {
            let ask = asks.swap_remove(0);
            let brought = reading.read(ask, self.begins(node), most).await?;
            return Ok(reading.table(brought));
        }
        let (mut rows, mut more, mut left) = (reading.form.empty(), false, turns.len());
        // Where few rows are wanted, few are asked for ahead: the first may have them all.
        let ahead = if most < 25 { 1 } else { ROWS_AT_ONCE };
        let reads =
            asks.into_iter().map(|ask| reading.read(ask, Position::default(), most)).collect::<Vec<_>>();
        let mut reads = stream::iter(reads).buffered(ahead);
        let mut found: Vec<Rows> = Vec::new();
        for place in turns {
            if rows.len >= most {
                break;
            }
            if place == found.len()
                && let Some(brought) = reads.next().await
            {
                let brought = brought?;
                if brought.late {
                    return Err(Stop::Late);
                }
                more |= brought.next.is_some();
                found.push(brought.rows);
            } else {
                // They were counted as they were read, and are held once more for each row that asks the same.
                self.asks.more(found[place].size())?;
            }
            left -= 1;
            rows.append(found[place].clone());
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
