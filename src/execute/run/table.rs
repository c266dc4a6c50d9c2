//! Rows as a run holds them: the columns of JSON that a read brought, shared, and views of them. A filter, an order or a
//! choice of columns makes another view and copies no value.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value as Json};

use super::{Covered, Position, raw::size};
use crate::execute::{
    catalog::{Base, Catalog, Entity},
    fault::Fault,
};

/// What a step gives.
#[derive(Clone, Debug)]
pub(super) enum Output {
    Table(Table),
    Text(String),
}

/// Whose rows they are.
#[derive(Clone, Debug)]
pub(super) struct Of {
    pub catalog: Arc<Catalog>,
    pub entity: Arc<str>,
}

impl Of {
    pub fn entity(&self) -> Option<&Entity> {
        self.catalog.entity(&self.entity)
    }

    pub fn key(&self) -> &[String] {
        self.entity().map_or(&[], |entity| &entity.key)
    }
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Base(Base),
    /// The identity of a row of that entity.
    Ref(String),
}

impl Type {
    pub fn name(&self) -> &str {
        match self {
            Type::Base(base) => base.name(),
            Type::Ref(entity) => entity,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Column {
    pub name: String,
    pub ty: Type,
    pub cells: Vec<Json>,
}

/// Columns of one length.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub of: Option<Of>,
    pub columns: Vec<Column>,
    /// The rows within each row, by the relation's name: an array a row.
    pub within: Vec<(String, Vec<Json>)>,
    pub len: usize,
    /// Columns with values that are not of their type.
    pub lossy: BTreeSet<String>,
}

impl Rows {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    pub fn cell(&self, column: usize, row: usize) -> &Json {
        self.columns.get(column).and_then(|column| column.cells.get(row)).unwrap_or(&Json::Null)
    }

    /// The row's key by its parts; a part that is not there is null.
    pub fn key(&self, row: usize) -> Map<String, Json> {
        let parts = self.of.iter().flat_map(|of| of.key());
        let part = |name: &String| {
            let cell = self.column(name).map_or(Json::Null, |column| self.cell(column, row).clone());
            (name.clone(), cell)
        };
        parts.map(part).collect()
    }

    /// About how many bytes they have in JSON.
    pub fn size(&self) -> usize {
        let cells = self.columns.iter().map(|column| &column.cells);
        cells.chain(self.within.iter().map(|(_, cells)| cells)).flatten().map(size).sum()
    }

    /// Forgets the rows from there on.
    pub fn cut(&mut self, len: usize) {
        self.columns.iter_mut().for_each(|column| column.cells.truncate(len));
        self.within.iter_mut().for_each(|(_, cells)| cells.truncate(len));
        self.len = self.len.min(len);
    }

    /// Forgets the rows that are not to be kept.
    pub fn keep(&mut self, kept: &[bool]) {
        let pick = |cells: &mut Vec<Json>| {
            let mut kept = kept.iter();
            cells.retain(|_| kept.next().is_none_or(|keep| *keep));
        };
        self.columns.iter_mut().for_each(|column| pick(&mut column.cells));
        self.within.iter_mut().for_each(|(_, cells)| pick(cells));
        self.len = kept.iter().filter(|keep| **keep).count();
    }

    /// The rows of another read of the same form, after these.
    pub fn append(&mut self, mut other: Rows) {
        for (column, more) in self.columns.iter_mut().zip(&mut other.columns) {
            column.cells.append(&mut more.cells);
        }
        for ((_, cells), (_, more)) in self.within.iter_mut().zip(&mut other.within) {
            cells.append(more);
        }
        self.len += other.len;
        self.lossy.append(&mut other.lossy);
    }
}

/// A key as a value: its one part, or all by name; null where there is none.
pub(super) fn identity(mut key: Map<String, Json>) -> Json {
    match key.len() {
        0 => Json::Null,
        1 => key.iter_mut().next().map(|(_, part)| part.take()).unwrap_or_default(),
        _ => Json::Object(key),
    }
}

/// A column of a view: a column of the rows, or what lies within its values.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub name: String,
    pub column: usize,
    pub path: Vec<String>,
    pub ty: Type,
}

/// A view of rows.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub rows: Arc<Rows>,
    /// The rows that are left, in their order.
    pub order: Vec<u32>,
    pub views: Vec<View>,
    pub covered: Covered,
    /// Rows are missing that nobody chose to leave out.
    pub lacking: bool,
    /// There was no time for all of it.
    pub late: bool,
    /// Where the read behind it can be gone on with: its node, and its next row's place.
    pub next: Option<(usize, Position)>,
}

impl Table {
    /// All of the rows.
    pub fn of(rows: Rows) -> Table {
        Table {
            order: (0..u32::try_from(rows.len).unwrap_or(u32::MAX)).collect(),
            views: views(&rows),
            rows: Arc::new(rows),
            covered: Covered::Complete,
            lacking: false,
            late: false,
            next: None,
        }
    }

    /// The same rows with all of their columns under their own names.
    pub fn whole(&self) -> Table {
        Table { views: views(&self.rows), ..self.clone() }
    }

    /// What a path names: a column, by its whole name or its first part, and the keys within its value. `None`: no column
    /// of that name came.
    pub fn find(&self, path: &[String]) -> Option<View> {
        let view = self.views.iter().find(|view| Some(&view.name) == path.first())?;
        let mut found = view.clone();
        let Some(second) = path.get(1) else { return Some(found) };
        match (&view.ty, self.rows.of.as_ref()) {
            (Type::Ref(entity), Some(of)) => {
                // An identity of one part is written as that part alone.
                let parts = of.catalog.entity(entity).map_or(1, |entity| entity.key.len());
                found.path.extend_from_slice(&path[if parts == 1 { 2 } else { 1 }..]);
                found.ty = key_type(&of.catalog, entity, second);
            }
            _ => {
                found.path.extend_from_slice(&path[1..]);
                found.ty = Type::Base(Base::Json);
            }
        }
        Some(found)
    }

    /// The value that a view has in the row of that number.
    pub fn cell(&self, view: &View, row: u32) -> &Json {
        within(self.rows.cell(view.column, row as usize), &view.path)
    }

    /// About how many bytes a copy of its cells takes, counted until they are more than `most`. A column may be there many
    /// times, and a cell takes its place in memory even where it is null.
    pub fn weight(&self, most: usize) -> usize {
        let cells = self.order.iter().flat_map(|row| self.views.iter().map(|view| self.cell(view, *row)));
        let mut bytes = 0;
        for cell in cells {
            bytes += size(cell).max(size_of::<Json>());
            if bytes > most {
                break;
            }
        }
        bytes
    }

    /// The one row.
    pub fn one(&self) -> Result<u32, Fault> {
        self.order.first().copied().ok_or_else(|| {
            let what = self.rows.of.as_ref().map_or("row", |of| &of.entity);
            Fault::new(
                "not_found",
                format!("there is no {what} here"),
                "check the key, or that the relation leads somewhere",
            )
        })
    }
}

fn views(rows: &Rows) -> Vec<View> {
    let view = |(column, of): (usize, &Column)| View {
        name: of.name.clone(),
        column,
        path: Vec::new(),
        ty: of.ty.clone(),
    };
    rows.columns.iter().enumerate().map(view).collect()
}

/// What the part of an entity's key holds.
fn key_type(catalog: &Catalog, entity: &str, part: &str) -> Type {
    let holds = catalog.entity(entity).and_then(|entity| entity.fields.get(part)).map(|field| &field.holds);
    let domain = holds.and_then(|holds| catalog.domain(holds));
    Type::Base(domain.map_or(Base::Json, |domain| domain.base))
}

/// What lies within a value.
pub(super) fn within<'j>(value: &'j Json, path: &[String]) -> &'j Json {
    let Some((first, rest)) = path.split_first() else { return value };
    match value {
        Json::Object(map) => map.get(first).map_or(&Json::Null, |value| within(value, rest)),
        Json::Array(items) => {
            let item = first.parse::<usize>().ok().and_then(|index| items.get(index));
            item.map_or(&Json::Null, |item| within(item, rest))
        }
        _ => &Json::Null,
    }
}
