//! From the typed program to the nodes of its plan, in program order. What a read can be asked for is split here into what is
//! pushed upstream and what is left.

use std::collections::{BTreeSet, HashMap};

use super::*;
use crate::execute::{
    catalog::{Coverage, Kind},
    language::{
        query,
        typed::{
            Call, Column, Each, EachTarget, Given, Origin, Shape, TypedFlow, TypedKind, TypedRhs, TypedStep,
        },
    },
    symbols::EntityId,
};

type Built<T> = Result<T, Box<ProgramError>>;

/// What only the making of a plan needs to know of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    /// The columns of its first input that it looks at.
    pub columns: BTreeSet<String>,
    /// The columns of other nodes whose values it is given.
    pub values: Vec<(usize, String)>,
    /// Whose rows come out of it, where it reads.
    pub entity: Option<EntityId>,
    /// The number of rows it stops at.
    pub limit: Option<u64>,
    /// The most rows of one page.
    pub page: Option<u64>,
}

pub(super) struct Builder<'a> {
    pub scope: &'a Scope,
    pub now: Instant,
    pub nodes: Vec<Node>,
    pub uses: Vec<Uses>,
    /// The last node of each binding.
    pub ends: Vec<usize>,
    effects: Vec<Effect>,
    /// The last write; the next one and what reads its entity come after it.
    last_write: Option<usize>,
    /// Reads by what they do, so that the same read is made once.
    same: HashMap<String, usize>,
}

pub(super) fn build(typed: &Typed, source: &str, scope: &Scope, now: Instant) -> Built<(Plan, Vec<Uses>)> {
    let mut builder = Builder {
        scope,
        now,
        nodes: Vec::new(),
        uses: Vec::new(),
        ends: Vec::new(),
        effects: Vec::new(),
        last_write: None,
        same: HashMap::new(),
    };
    for bound in &typed.bindings {
        let end = builder.rhs(&bound.rhs)?;
        builder.ends.push(end);
    }
    let mut roots = Vec::new();
    for rhs in &typed.roots {
        let label = match (&rhs.flow.origin, rhs.flow.steps.is_empty() && rhs.each.is_none()) {
            (Origin::Binding(index), true) => typed.bindings[*index].label.clone(),
            _ => rhs.span.text(source).chars().take(60).collect(),
        };
        roots.push(Root { label, node: builder.rhs(rhs)? });
    }
    let plan = Plan {
        version: VERSION,
        catalogs: BTreeMap::new(),
        nodes: builder.nodes,
        roots,
        warnings: Vec::new(),
        effects: builder.effects,
        requests: 0,
        verdict: Verdict::Ok,
    };
    Ok((plan, builder.uses))
}

impl Builder<'_> {
    fn node(&self, op: Op, inputs: Vec<usize>, shape: &Shape, span: Span) -> Node {
        let (cols, card) = match shape {
            Shape::Text => (Vec::new(), Card::Text),
            Shape::Rows(rows) => {
                let card = if rows.one { Card::One } else { Card::Many };
                (rows.columns.iter().map(|column| column.name.clone()).collect(), card)
            }
        };
        Node {
            id: 0,
            op,
            api: None,
            entity: None,
            operation: None,
            inputs,
            after: Vec::new(),
            args: Json::Null,
            pushed: Vec::new(),
            residual: Vec::new(),
            cols,
            fetched: Vec::new(),
            limit: None,
            page_size: None,
            card,
            effect: None,
            bounds: Bounds::default(),
            partial: false,
            span,
        }
    }

    fn add(&mut self, mut node: Node, mut uses: Uses) -> usize {
        if let Some(entity) = uses.entity {
            let seed = self.scope.seed(entity);
            node.api = Some(seed.api.clone());
            node.entity = Some(seed.entity.clone());
        }
        for (value, _) in &uses.values {
            if !node.inputs.contains(value) {
                node.inputs.push(*value);
            }
        }
        uses.values.sort();
        let reads = matches!(node.op, Op::Query | Op::Search | Op::Get | Op::Identity | Op::Hop);
        if node.effect.is_some() {
            node.after.extend(self.last_write);
        } else if let Some(write) = self.last_write.filter(|_| reads) {
            // A read after a write of the same entity waits for it, and for those before it.
            let wrote = |effect: &&Effect| {
                node.api.as_ref() == Some(&effect.api) && node.entity.as_ref() == Some(&effect.entity)
            };
            if self.effects.iter().any(|effect| wrote(&effect)) {
                node.after.push(write);
            }
        }
        let key = (node.effect.is_none()).then(|| {
            let mut json = json!(node);
            if let Some(json) = json.as_object_mut() {
                json.remove("span");
            }
            format!("{:?} {:?} {}", uses.limit, uses.page, canonical::canonical(&json))
        });
        if let Some(same) = key.as_ref().and_then(|key| self.same.get(key)) {
            return *same;
        }
        let id = self.nodes.len();
        node.id = id;
        self.same.extend(key.map(|key| (key, id)));
        self.nodes.push(node);
        self.uses.push(uses);
        id
    }

    fn rhs(&mut self, rhs: &TypedRhs) -> Built<usize> {
        let end = self.flow(&rhs.flow)?;
        match &rhs.each {
            Some(each) => Ok(self.each(end, each, &rhs.shape, rhs.span)),
            None => Ok(end),
        }
    }

    fn flow(&mut self, flow: &TypedFlow) -> Built<usize> {
        let (mut at, mut rest) = self.origin(flow)?;
        while let Some((step, after)) = rest.split_first() {
            rest = after;
            if let TypedKind::Hop { from, relation } = &step.kind {
                (at, rest) = self.hop(at, *from, relation, step, after)?;
            } else {
                at = self.step(at, step);
            }
        }
        Ok(at)
    }

    /// The first node, and the steps that are not part of it.
    fn origin<'t>(&mut self, flow: &'t TypedFlow) -> Built<(usize, &'t [TypedStep])> {
        let steps = flow.steps.as_slice();
        Ok(match &flow.origin {
            Origin::Binding(index) => (self.ends[*index], steps),
            Origin::Text(text) => {
                let mut node = self.node(Op::Text, Vec::new(), &Shape::Text, flow.head);
                node.args = json!({ "text": text });
                (self.add(node, Uses::default()), steps)
            }
            Origin::Sole(entity) => (self.one(Op::Identity, *entity, &[], flow.head), steps),
            Origin::One { entity, key } => {
                let gets =
                    self.scope.catalog(*entity).operation(self.scope.name(*entity), Kind::Get).is_some();
                let op = if gets { Op::Get } else { Op::Identity };
                (self.one(op, *entity, key, flow.head), steps)
            }
            Origin::All(entity) => match steps.split_first() {
                Some((TypedStep { kind: TypedKind::Call(call), shape, span }, rest)) => {
                    (self.call(None, call, shape, *span), rest)
                }
                Some((TypedStep { kind: TypedKind::Search { operation, words }, shape, span }, rest)) => {
                    let mut node = self.node(Op::Search, Vec::new(), shape, flow.head.to(*span));
                    let mut uses = Uses { entity: Some(*entity), ..Uses::default() };
                    node.args = json!({ "text": self.given(words, &mut uses) });
                    node.operation = Some(operation.clone());
                    self.asked(node, uses, *entity, operation.clone(), rest)
                }
                _ => {
                    let (id, _) = query(flow, *entity, self.scope)?;
                    let id = id.to_owned();
                    let mut node = self.node(Op::Query, Vec::new(), &Shape::Text, flow.head);
                    node.card = Card::Many;
                    node.cols = self.fields(*entity);
                    node.operation = Some(id.clone());
                    self.asked(node, Uses { entity: Some(*entity), ..Uses::default() }, *entity, id, steps)
                }
            },
        })
    }

    fn fields(&self, entity: EntityId) -> Vec<String> {
        let shape = self.scope.catalog(entity).entity(self.scope.name(entity));
        shape.into_iter().flat_map(|shape| shape.fields.keys()).map(str::to_owned).collect()
    }

    fn one(&mut self, op: Op, entity: EntityId, key: &[(String, Given)], span: Span) -> usize {
        let mut node = self.node(op, Vec::new(), &Shape::Text, span);
        node.card = Card::One;
        node.cols = self.fields(entity);
        let mut uses = Uses { entity: Some(entity), ..Uses::default() };
        if op == Op::Get {
            let get = self.scope.catalog(entity).operation(self.scope.name(entity), Kind::Get);
            node.operation = get.map(|(id, _)| id.to_owned());
        }
        node.args = json!({ "key": self.named(key, &mut uses) });
        self.add(node, uses)
    }

    /// A read, with the filters that follow it: pushed where an argument takes them, else left. Orders among them are nodes
    /// after it: a filter does not mind.
    fn asked<'t>(
        &mut self,
        mut node: Node,
        mut uses: Uses,
        entity: EntityId,
        operation: String,
        steps: &'t [TypedStep],
    ) -> (usize, &'t [TypedStep]) {
        let operation = self.scope.catalog(entity).operations.get(&operation).cloned();
        // What these conditions look at are columns of the read's own rows, which its residual tells; not of its input's.
        let mut own = Uses::default();
        let (mut sorts, mut taken) = (Vec::new(), 0);
        for step in steps {
            match &step.kind {
                TypedKind::Filter(all) => {
                    for condition in all {
                        self.split(condition, operation.as_ref(), &mut node, &mut own);
                    }
                }
                TypedKind::PageSize(size) => uses.page = Some(*size),
                TypedKind::Sort(_) => sorts.push(step),
                _ => break,
            }
            node.span = node.span.to(step.span);
            taken += 1;
        }
        uses.values.append(&mut own.values);
        node.partial = operation.as_ref().is_some_and(|operation| operation.coverage() == Coverage::Partial);
        let pages = operation.as_ref().and_then(|operation| operation.pages.size());
        node.page_size = uses.page;
        uses.page = match (uses.page, pages) {
            (Some(wished), Some(_)) => Some(wished),
            (_, known) => known,
        };
        let stops = sorts.is_empty().then(|| steps.get(taken).map(|step| &step.kind)).flatten();
        if let Some(TypedKind::Limit(limit)) = stops {
            uses.limit = Some(*limit);
            node.limit = Some(*limit);
        }
        let mut at = self.add(node, uses);
        for sort in sorts {
            at = self.step(at, sort);
        }
        (at, &steps[taken..])
    }

    fn hop<'t>(
        &mut self,
        at: usize,
        from: EntityId,
        relation: &str,
        step: &TypedStep,
        rest: &'t [TypedStep],
    ) -> Built<(usize, &'t [TypedStep])> {
        let catalog = self.scope.catalog(from);
        let shape = catalog.entity(self.scope.name(from));
        let found = shape.and_then(|shape| shape.relations.get(relation)).cloned();
        let mut node = self.node(Op::Hop, vec![at], &step.shape, step.span);
        let to = found.as_ref().and_then(|found| self.scope.sibling(from, &found.to));
        let mut uses = Uses { entity: to, ..Uses::default() };
        node.args = json!({ "relation": relation });
        let Some(found) = found else { return Ok((self.add(node, uses), rest)) };
        if let Some(field) = &found.by_ref {
            uses.columns.insert(field.clone());
        } else if found.embed.is_some() {
            uses.columns.insert(relation.to_owned());
        }
        let (Some(query), Some(to)) = (&found.query, to) else {
            // Fields of its rows are fetched one by one: of no more than are wanted.
            if let Some(TypedKind::Limit(limit)) = rest.first().map(|step| &step.kind) {
                uses.limit = Some(*limit);
                node.limit = Some(*limit);
            }
            return Ok((self.add(node, uses), rest));
        };
        for (arg, field) in found.bind.iter() {
            uses.columns.insert(field.clone());
            node.pushed.push(json!({ "arg": arg, "op": "=", "value": { "row": [field] } }));
        }
        node.operation = Some(query.clone());
        Ok(self.asked(node, uses, to, query.clone(), rest))
    }

    fn step(&mut self, at: usize, step: &TypedStep) -> usize {
        let mut uses = Uses::default();
        let column = |column: &Column, uses: &mut Uses| {
            uses.columns.insert(column.path[0].clone());
            json!(column.path)
        };
        let (op, args) = match &step.kind {
            TypedKind::Call(call) => return self.call(Some(at), call, &step.shape, step.span),
            TypedKind::Filter(all) => {
                let mut node = self.node(Op::Filter, vec![at], &step.shape, step.span);
                for condition in all {
                    self.split(condition, None, &mut node, &mut uses);
                }
                return self.add(node, uses);
            }
            TypedKind::Sort(orders) => {
                let orders: Vec<Json> = orders
                    .iter()
                    .map(|(by, desc)| json!({ "by": column(by, &mut uses), "desc": desc }))
                    .collect();
                (Op::Sort, json!(orders))
            }
            TypedKind::Limit(rows) => (Op::Limit, json!(rows)),
            TypedKind::PageSize(rows) => (Op::PageSize, json!(rows)),
            TypedKind::Distinct(columns) => {
                (Op::Distinct, columns.iter().map(|one| column(one, &mut uses)).collect())
            }
            TypedKind::Singleton => (Op::Singleton, Json::Null),
            TypedKind::Group { by, aggregates } => {
                let by: Vec<Json> = by.iter().map(|one| column(one, &mut uses)).collect();
                let aggregates: Vec<Json> = aggregates
                    .iter()
                    .map(|one| {
                        let of = one.column.as_ref().map(|of| column(of, &mut uses));
                        json!({ "name": one.name, "function": one.function.name(), "of": of })
                    })
                    .collect();
                (Op::Group, json!({ "by": by, "aggregates": aggregates }))
            }
            TypedKind::Columns(columns) => {
                let kept: Vec<Json> = columns
                    .iter()
                    .map(|(of, name)| json!({ "of": column(of, &mut uses), "as": name }))
                    .collect();
                (Op::Columns, json!(kept))
            }
            TypedKind::Render(template) => {
                // A column that the template names is needed.
                let named = |name: &&String| {
                    template
                        .split(|c: char| !c.is_alphanumeric() && c != '_')
                        .any(|word| word == name.as_str())
                };
                uses.columns.extend(self.nodes[at].cols.iter().filter(named).cloned());
                (Op::Render, json!(template))
            }
            TypedKind::Hop { .. } | TypedKind::Search { .. } => {
                unreachable!("these begin a read of their own")
            }
        };
        let mut node = self.node(op, vec![at], &step.shape, step.span);
        node.args = args;
        self.add(node, uses)
    }

    fn call(&mut self, at: Option<usize>, call: &Call, shape: &Shape, span: Span) -> usize {
        let mut node = self.node(Op::Call, at.into_iter().collect(), shape, span);
        let mut uses = Uses { entity: Some(call.entity), ..Uses::default() };
        node.args = self.named(&call.args, &mut uses);
        self.write(node, uses, call)
    }

    fn each(&mut self, at: usize, each: &Each, shape: &Shape, span: Span) -> usize {
        let mut node = self.node(Op::Each, vec![at], shape, span);
        let mut uses = Uses { entity: Some(each.call.entity), ..Uses::default() };
        let target = match &each.target {
            EachTarget::Row => json!("row"),
            EachTarget::Entity => Json::Null,
            EachTarget::Key(key) => self.named(key, &mut uses),
        };
        node.args = json!({ "target": target, "args": self.named(&each.call.args, &mut uses) });
        self.write(node, uses, &each.call)
    }

    fn write(&mut self, mut node: Node, uses: Uses, call: &Call) -> usize {
        let seed = self.scope.seed(call.entity);
        let catalog = self.scope.catalog(call.entity);
        let operation = catalog.operations.get(&call.operation);
        let effect = operation.and_then(|operation| operation.effect.clone());
        let class = effect.as_ref().map_or(EffectClass::Write, |effect| effect.class);
        node.operation = Some(call.operation.clone());
        node.effect = (class != EffectClass::Read).then_some(class);
        let id = self.add(node, uses);
        if class != EffectClass::Read {
            let name = operation.and_then(|operation| operation.name.as_deref()).unwrap_or(&call.operation);
            self.effects.push(Effect {
                node: id,
                api: seed.api.clone(),
                entity: seed.entity.clone(),
                method: name.to_owned(),
                class,
                idempotent: effect.is_some_and(|effect| effect.idempotent),
                calls: 0,
            });
            self.last_write = Some(id);
        }
        id
    }
}
